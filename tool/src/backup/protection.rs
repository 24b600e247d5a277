//! The encryption of backups, by the crate `age`.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::path::Path;

use age::secrecy::{ExposeSecret, SecretString};
use age::{DecryptError, Decryptor, Encryptor, Identity, IdentityFile, Recipient, scrypt, x25519};
use zeroize::Zeroizing;

use crate::output::{self, Existing};
use crate::{Cause, Error};

/// The shortest passphrase in bytes.
pub const SHORTEST_PASSPHRASE: usize = 12;
/// The cost of a passphrase: 2^18 blocks of scrypt, 256 MiB, about a second. The program `age` uses
/// the same cost. Without this constant, the crate `age` would choose a cost by measuring this
/// machine.
const WORK: u8 = 18;
/// The largest cost of a passphrase that is accepted: 1 GiB.
const MOST_WORK: u8 = 20;
/// The longest file with identities or recipients in bytes.
const LONGEST_FILE: u64 = 64 << 10;
/// The first bytes of a file of age.
const MAGIC: &[u8] = b"age-encryption.org/";
/// The longest header of a backup in bytes. Each recipient needs 98 of them.
const LONGEST_HEADER: u64 = 256 << 10;
/// The largest number of lines in the header of a backup. Each recipient needs two. The crate `age`
/// reads the header from its start again for each line.
const MOST_LINES: usize = 4096;

pub enum Protection {
    Passphrase(Zeroizing<String>),
    Recipients(Vec<x25519::Recipient>),
}

pub enum Keys {
    Passphrase(Zeroizing<String>),
    /// X25519 keys, of which one is enough.
    Identities(Vec<Box<dyn Identity>>),
}

impl Protection {
    /// Encrypts what `content` writes. Returns the keys that decrypt it.
    ///
    /// The tool decrypts the new file to check it, but it does not have the private keys of the
    /// recipients. So the file has one more recipient: a key that exists only in the memory of this
    /// process.
    pub(super) fn encrypt(
        &self,
        output: &mut dyn Write,
        content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<Keys, Error> {
        let (encryptor, keys) = match self {
            Self::Passphrase(passphrase) => {
                let mut recipient = scrypt::Recipient::new(secret(passphrase));
                recipient.set_work_factor(WORK);
                let encryptor = Encryptor::with_recipients(std::iter::once(&recipient as &dyn Recipient));
                (encryptor, Keys::Passphrase(passphrase.clone()))
            }
            Self::Recipients(recipients) => {
                let own = x25519::Identity::generate();
                let public = own.to_public();
                let all = recipients.iter().chain([&public]).map(|recipient| recipient as &dyn Recipient);
                (Encryptor::with_recipients(all), Keys::Identities(vec![Box::new(own)]))
            }
        };
        // `Display` of this error comes from a macro of age 0.11 that writes its arguments in a
        // random order, so that no two builds would be equal.
        let encryptor = encryptor.map_err(|error| Error::Failed(format!("age: {error:?}")))?;
        let failed = || Error::io("backup");
        let mut plain = encryptor.wrap_output(output).map_err(failed())?;
        content(&mut plain)?;
        plain.finish().and_then(|output| output.flush()).map_err(failed())?;
        Ok(keys)
    }
}

impl Keys {
    /// Returns the decrypted content. Reading it fails at the first part that was altered, and at
    /// the end if the file was cut.
    pub(super) fn decrypt<R: BufRead>(
        &self,
        name: &Path,
        mut input: R,
    ) -> Result<impl BufRead + use<R>, Error> {
        let failed = |reason: &str| Error::Failed(format!("{}: {reason}", name.display()));
        let explain = |error: DecryptError| match error {
            DecryptError::NoMatchingKeys => failed("the backup is for other keys"),
            DecryptError::DecryptionFailed => {
                let text = format!("{}: the passphrase is wrong, or the file was altered", name.display());
                Error::Caused(Cause::WrongPin, text)
            }
            DecryptError::ExcessiveWork { required, .. } => failed(&format!(
                "its passphrase costs 2^{required} blocks of scrypt; 2^{MOST_WORK} are allowed"
            )),
            DecryptError::InvalidHeader | DecryptError::UnknownFormat => {
                Error::Caused(Cause::Damaged, format!("{}: this is not a file of age", name.display()))
            }
            error => failed(&error.to_string()),
        };
        let header = read_header(&mut input).map_err(Error::io(name))?;
        let header = header.ok_or_else(|| {
            failed(&format!("its header has more than {LONGEST_HEADER} bytes or {MOST_LINES} lines"))
        })?;
        let decryptor = Decryptor::new_buffered(Cursor::new(header).chain(input)).map_err(explain)?;
        let content = match self {
            Self::Passphrase(_) if !decryptor.is_scrypt() => {
                return Err(failed("the backup has recipients and no passphrase; give an --identity"));
            }
            Self::Identities(_) if decryptor.is_scrypt() => {
                return Err(failed("the backup has a passphrase and no recipients"));
            }
            Self::Passphrase(passphrase) => {
                let mut identity = scrypt::Identity::new(secret(passphrase));
                identity.set_max_work_factor(MOST_WORK);
                decryptor.decrypt(std::iter::once(&identity as &dyn Identity))
            }
            Self::Identities(all) => decryptor.decrypt(all.iter().map(AsRef::as_ref)),
        };
        content.map(BufReader::new).map_err(explain)
    }
}

/// Reads the header of a file of age, up to the line with its MAC. Returns `None` if the header is
/// too long, because the crate `age` would read a header of any length. If the file is not of age,
/// or ends in its header, returns the bytes that were read: the crate `age` reports the error.
fn read_header(input: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let (mut header, mut input) = (Vec::new(), input.take(LONGEST_HEADER));
    for _ in 0..MOST_LINES {
        let start = header.len();
        let len = input.read_until(b'\n', &mut header)?;
        if !header.starts_with(MAGIC) {
            return Ok(Some(header));
        }
        if input.limit() == 0 {
            break;
        }
        if len == 0 || header[start..].starts_with(b"---") {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

fn secret(passphrase: &str) -> SecretString {
    SecretString::from(passphrase.to_owned())
}

/// Reads a file with one recipient in each line. This is the format of the program `age`. Lines
/// that begin with `#` are comments.
pub fn read_recipients(path: &Path) -> Result<Vec<x25519::Recipient>, Error> {
    let text = read(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            line.parse().map_err(|reason: &str| Error::Failed(format!("{}: {reason}", path.display())))
        })
        .collect()
}

/// Reads a file with identities, as `age-keygen` writes it.
pub fn read_identities(path: &Path) -> Result<Vec<Box<dyn Identity>>, Error> {
    let text = read(path)?;
    let wrong = |reason: String| Error::Failed(format!("{}: {reason}", path.display()));
    let file = IdentityFile::from_buffer(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    file.into_identities().map_err(|error| wrong(error.to_string()))
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
    let identity = x25519::Identity::generate();
    let recipient = identity.to_public().to_string();
    let key = identity.to_string();
    let text = Zeroizing::new(format!("# public key: {recipient}\n{}\n", key.expose_secret()));
    output::write(path, text.as_bytes(), Existing::Keep)?;
    Ok(recipient)
}

/// Returns the recipient that [`new_identity`] wrote into a file.
pub fn recipient_of(path: &Path) -> Result<String, Error> {
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(Error::io(path))?);
    let recipient = text.lines().find_map(|line| line.strip_prefix("# public key: "));
    let none = || Error::Failed(format!("{} does not name its recipient", path.display()));
    Ok(recipient.ok_or_else(none)?.to_owned())
}
