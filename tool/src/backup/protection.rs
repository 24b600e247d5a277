//! The encryption of backups, and the files with keys for it.

use std::fs::File;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::Path;
use std::str::FromStr;

use zeroize::Zeroizing;

use super::age::{self, Failure, FileKey, Header, Identity, Recipient};
use crate::output_file::{self, Existing};
use crate::{Cause, Error};

pub const SHORTEST_PASSPHRASE: usize = 12;
/// The longest file with identities or recipients in bytes.
const LONGEST_FILE: u64 = 64 << 10;
/// The start of the comment with the recipient of an identity, as in files of `age-keygen`.
const RECIPIENT_LINE: &str = "# public key: ";

pub enum Protection {
    Passphrase(Zeroizing<String>),
    Recipients(Vec<Recipient>),
}

pub enum Keys {
    Passphrase(Zeroizing<String>),
    /// X25519 keys, of which one is enough.
    Identities(Vec<Identity>),
}

impl Protection {
    /// Encrypts what `content` writes. Returns the keys that decrypt it.
    ///
    /// The tool decrypts the new file to check it, but it does not have the private keys of the
    /// recipients. So the file has one more recipient: a key that exists only in the memory of this
    /// process.
    pub fn encrypt(
        &self,
        output: &mut dyn Write,
        content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<Keys, Error> {
        let (file_key, keys) = match self {
            Self::Passphrase(passphrase) => {
                let file_key = FileKey::for_passphrase(output, passphrase).map_err(failed)?;
                (file_key, Keys::Passphrase(passphrase.clone()))
            }
            Self::Recipients(recipients) => {
                let (own, _) = Identity::generate().map_err(|error| failed(error.into()))?;
                let all = recipients.iter().chain([&own.public]);
                let file_key = FileKey::for_recipients(output, all).map_err(failed)?;
                (file_key, Keys::Identities(vec![own]))
            }
        };
        let mut plain = age::Writer::new(output, &file_key).map_err(failed)?;
        content(&mut plain)?;
        plain.finish().map_err(Error::io("backup"))?;
        Ok(keys)
    }
}

impl Keys {
    /// Returns the decrypted content. Reading it fails at the first part that was altered, and at
    /// the end if the file was cut.
    pub fn decrypt<R: BufRead>(&self, name: &Path, mut input: R) -> Result<age::Reader<R>, Error> {
        let explain = |failure| explain(name, failure);
        let header = Header::read(&mut input).map_err(explain)?;
        let file_key = match self {
            Self::Passphrase(_) if !header.has_passphrase() => Err(Error::Failed(format!(
                "{}: the backup has recipients and no passphrase; give an --identity or a --share",
                name.display()
            ))),
            Self::Identities(_) if header.has_passphrase() => Err(Error::Failed(format!(
                "{}: the backup has a passphrase and no recipients",
                name.display()
            ))),
            Self::Passphrase(passphrase) => header.open_with_passphrase(passphrase).map_err(|failure| {
                let text = "the passphrase is wrong, or the file was altered";
                match failure {
                    Failure::NoMatch => Error::Caused(Cause::WrongPin, format!("{}: {text}", name.display())),
                    failure => explain(failure),
                }
            }),
            Self::Identities(all) => header.open_with(all).map_err(explain),
        };
        age::Reader::new(input, &file_key?).map_err(explain)
    }
}

fn explain(name: &Path, failure: Failure) -> Error {
    let (cause, text) = match failure {
        Failure::NotAge => (Cause::Damaged, "this is not a file of age".to_owned()),
        Failure::Altered => (Cause::Damaged, "the header of the file was altered".to_owned()),
        Failure::NoMatch => (Cause::Other, "the backup is for other keys".to_owned()),
        Failure::TooLong => (
            Cause::Other,
            format!("its header has more than {} bytes or {} lines", age::LONGEST_HEADER, age::MOST_LINES),
        ),
        Failure::Work(required) => (
            Cause::Other,
            format!("its passphrase costs 2^{required} blocks of scrypt; 2^{} are allowed", age::MOST_WORK),
        ),
        Failure::Crypto => (Cause::Other, "AWS-LC failed".to_owned()),
        Failure::Io(error) => return unread(name)(error),
    };
    Error::Caused(cause, format!("{}: {text}", name.display()))
}

/// Returns a function for `map_err` that makes the error of a backup that cannot be read. What is
/// missing or altered is damage.
pub fn unread(name: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            Error::Caused(Cause::Damaged, format!("{}: {error}", name.display()))
        }
        _ => Error::io(name)(error),
    }
}

fn failed(failure: Failure) -> Error {
    explain(Path::new("backup"), failure)
}

/// Reads a file with one recipient or identity in each line. This is the format of the programs
/// `age` and `age-keygen`. Lines that begin with `#` are comments.
pub fn read_keys<K: FromStr<Err = &'static str>>(path: &Path) -> Result<Vec<K>, Error> {
    let text = read(path)?;
    key_lines(&text)
        .map(|line| line.parse().map_err(|reason| Error::Failed(format!("{}: {reason}", path.display()))))
        .collect()
}

fn read(path: &Path) -> Result<Zeroizing<String>, Error> {
    // One byte more than allowed shows that the file is longer.
    let mut text = Zeroizing::new(String::with_capacity(LONGEST_FILE as usize + 1));
    let len = File::open(path)
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_string(&mut text))
        .map_err(Error::io(path))?;
    if len as u64 > LONGEST_FILE {
        return Err(Error::Failed(format!(
            "{}: the file has more than {LONGEST_FILE} bytes",
            path.display()
        )));
    }
    Ok(text)
}

/// Writes a new identity into a new file, as `age-keygen` does. Returns its recipient.
pub fn new_identity(path: &Path) -> Result<String, Error> {
    let (identity, key) = Identity::generate().map_err(|error| failed(error.into()))?;
    output_file::write(path, identity_file(&identity, &key).as_bytes(), Existing::Keep)?;
    Ok(identity.public.to_string())
}

/// Returns the content of a file with an identity. `key` has its bytes.
pub fn identity_file(identity: &Identity, key: &[u8; 32]) -> Zeroizing<String> {
    Zeroizing::new(format!("{}{}\n", recipient_line(identity), *Identity::text(key)))
}

/// Returns the comment with the recipient of an identity.
pub fn recipient_line(identity: &Identity) -> String {
    format!("{RECIPIENT_LINE}{}\n", identity.public)
}

/// Returns the identity with these bytes.
pub fn identity(key: &[u8; 32]) -> Result<Identity, Error> {
    Identity::new(key).map_err(|error| failed(error.into()))
}

/// Returns the bytes of the only identity of a file.
pub fn read_identity(path: &Path) -> Result<Zeroizing<[u8; 32]>, Error> {
    let text = read(path)?;
    let mut lines = key_lines(&text);
    let key = lines.next().and_then(Identity::bytes).filter(|_| lines.next().is_none());
    let wrong = || Error::Failed(format!("{}: not a file with one identity of age", path.display()));
    key.ok_or_else(wrong)
}

fn key_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the recipient that [`recipient_line`] wrote into a file.
pub fn recipient_of(path: &Path) -> Result<String, Error> {
    let text = read(path)?;
    let recipient = text.lines().find_map(|line| line.strip_prefix(RECIPIENT_LINE));
    let none = || Error::Failed(format!("{} does not name its recipient", path.display()));
    Ok(recipient.ok_or_else(none)?.to_owned())
}
