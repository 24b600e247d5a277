//! Backups of Jeton's tokens: one file in the format of age (age-encryption.org/v1), for a
//! passphrase or for X25519 recipients.
//!
//! The encrypted content is a line with the version, a line of JSON ([`Header`]), the list of
//! issued certificates if there is one beside the token directory, and the token's store as SQLite
//! copied it.

mod age;
mod protection;

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::output_file::{Existing, NewFile};
use crate::token_file::{self, Copy, Facts, Login, Restore, TokenFile};
use crate::{Cause, Error, certificate_list};

pub use age::{Identity, Reader, Recipient};
use protection::unread;
pub use protection::{
    Keys, Protection, SHORTEST_PASSPHRASE, identity, identity_file, new_identity, read_identity, read_keys,
    recipient_line, recipient_of,
};

/// The first line of the content, without and with a list of issued certificates.
const VERSIONS: [&str; 2] = ["jeton backup 1\n", "jeton backup 2\n"];
/// The longest list of issued certificates in bytes.
const LONGEST_LIST: u64 = 4 << 30;
/// The longest line of the content in bytes. It bounds the memory that a hostile file costs.
const LONGEST_LINE: u64 = 64 << 10;
const PART: usize = 64 << 10;

/// The facts that a backup states about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub serial: String,
    pub label: String,
    pub objects: u64,
    /// The change number of the token when the backup was made.
    pub state: i64,
    /// When the backup was made, in seconds since 1970.
    pub created: u64,
    pub tool: String,
    /// The length of the list of issued certificates, which is before the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<u64>,
}

impl Header {
    fn of(facts: &Facts) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self {
            serial: facts.serial.clone(),
            label: facts.label.clone(),
            objects: facts.objects,
            state: facts.state,
            created,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            list: None,
        }
    }
}

pub enum Output<'a> {
    /// A new file. It is decrypted again and compared before it gets its name.
    File(&'a Path, Existing),
    /// A stream, which cannot be read again.
    Stream(&'a mut dyn Write),
}

/// Backs a token up. With a PIN, opens every record first.
pub fn create(
    token: &TokenFile,
    login: Option<Login<'_>>,
    protection: &Protection,
    output: Output<'_>,
) -> Result<Header, Error> {
    let copy = token_file::copy(token)?;
    let mut header = Header::of(&token_file::check(&copy, login)?);
    let list = copy_list()?;
    header.list = list
        .as_ref()
        .map(|list| list.as_file().metadata().map(|data| data.len()))
        .transpose()
        .map_err(Error::io("backup"))?;
    let content = || contents(&header, list.as_ref(), &copy);
    match output {
        Output::Stream(stream) => {
            protection.encrypt(stream, |plain| write_content(plain, &mut content()?))?;
        }
        Output::File(path, existing) => {
            let new = NewFile::create(path, existing)?;
            if new.is_stream() {
                let text =
                    format!("{}: the backup could not be read again; use - for a stream", path.display());
                return Err(Error::Usage(text));
            }
            let keys = protection.encrypt(&mut new.file(), |plain| write_content(plain, &mut content()?))?;
            compare(path, &new, &keys, &mut content()?)?;
            new.publish()?;
        }
    }
    Ok(header)
}

/// A backup that was decrypted. Dropping this value removes the decrypted copy.
pub struct Opened {
    pub header: Header,
    pub facts: Facts,
    copy: Copy,
    list: Option<NamedTempFile>,
}

impl Opened {
    /// Decrypts a backup into a new file of this directory, and checks what can be checked without
    /// a PIN. `name` is for messages.
    pub fn open(name: &Path, input: impl Read, keys: &Keys, directory: &Path) -> Result<Self, Error> {
        let damaged = |reason: &str| Error::Caused(Cause::Damaged, format!("{}: {reason}", name.display()));
        let mut content = keys.decrypt(name, BufReader::new(input))?;
        let version = read_line(name, &mut content)?;
        if !VERSIONS.iter().any(|known| version == known.as_bytes()) {
            return Err(damaged("this is not a backup of a token, or one of a newer version"));
        }
        let header: Header = serde_json::from_slice(&read_line(name, &mut content)?)
            .map_err(|_| damaged("the header of the backup is malformed"))?;
        let list = match header.list {
            Some(length) if length <= LONGEST_LIST => {
                let mut list = NamedTempFile::new().map_err(Error::io(std::env::temp_dir()))?;
                std::io::copy(&mut (&mut content).take(length), &mut list).map_err(unread(name))?;
                Some(list)
            }
            Some(_) => return Err(damaged("the list of issued certificates is too long")),
            None => None,
        };
        let copy = token_file::receive(directory, &header.serial, &mut content)?;
        let facts = token_file::check(&copy, None)?;
        let same = (&facts.serial, &facts.label, facts.objects, facts.state)
            == (&header.serial, &header.label, header.objects, header.state);
        if !same {
            return Err(damaged("the header of the backup does not fit its store"));
        }
        Ok(Self { header, facts, copy, list })
    }

    /// Opens every record with the key that the PIN unwraps.
    pub fn check(&self, login: Login<'_>) -> Result<(), Error> {
        token_file::check(&self.copy, Some(login)).map(drop)
    }

    /// Restores the backup as a token in the configured directory. Returns the facts about the
    /// token, the path of its file, and whether the list of issued certificates was restored.
    pub fn restore(self, how: Restore<'_>) -> Result<(Facts, PathBuf, Option<bool>), Error> {
        if self.list.is_some() {
            certificate_list::expect_readable()?;
        }
        let path = certificate_list::path()?;
        let mut parts =
            ["sqlite-journal", "sqlite-wal"].map(|ending| path.with_extension(ending)).into_iter();
        // SQLite would write the pages of a lost list into the restored one.
        if let Some(part) = parts.find(|part| self.list.is_some() && part.exists() && !path.exists()) {
            let text = format!("{} is a part of a lost list; move it away first", part.display());
            return Err(Cause::Exists.error(text));
        }
        let (facts, path) = token_file::restore(self.copy, how)?;
        Ok((facts, path, self.list.map(restore_list).transpose()?))
    }
}

/// Copies the list of issued certificates, if there is one.
fn copy_list() -> Result<Option<NamedTempFile>, Error> {
    let path = certificate_list::path()?;
    if certificate_list::is_missing(&path) {
        return Ok(None);
    }
    let copy = NamedTempFile::new().map_err(Error::io("backup"))?;
    certificate_list::copy(&path, copy.path())?;
    Ok(Some(copy))
}

/// Restores the list of a backup. A list that exists is kept. Returns whether it was restored.
fn restore_list(list: NamedTempFile) -> Result<bool, Error> {
    let path = certificate_list::path()?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut new = NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    let mut list = list.reopen().map_err(Error::io(&path))?;
    std::io::copy(&mut list, &mut new).and_then(|_| new.as_file().sync_all()).map_err(Error::io(&path))?;
    certificate_list::mark_restored(new.path())?;
    match new.persist_noclobber(&path) {
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        done => done.map(|_| true).map_err(|error| Error::io(&path)(error.error)),
    }
}

/// Returns the content of a backup.
fn contents<'a>(
    header: &Header,
    list: Option<&NamedTempFile>,
    copy: &'a Copy,
) -> Result<impl Read + use<'a>, Error> {
    let head = [VERSIONS[usize::from(list.is_some())].as_bytes(), &line(header)?].concat();
    let list: Box<dyn Read> = match list {
        Some(list) => Box::new(list.reopen().map_err(Error::io("backup"))?),
        None => Box::new(std::io::empty()),
    };
    Ok(std::io::Cursor::new(head).chain(list).chain(token_file::contents(copy)?))
}

fn write_content(plain: &mut dyn Write, content: &mut impl Read) -> Result<(), Error> {
    std::io::copy(content, plain).map(drop).map_err(Error::io("backup"))
}

fn line(header: &Header) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(header).map_err(|error| Error::Failed(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

fn read_line(name: &Path, content: &mut impl BufRead) -> Result<Vec<u8>, Error> {
    let mut line = Vec::new();
    content.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(unread(name))?;
    Ok(line)
}

/// Fails unless the file decrypts to this content.
fn compare(path: &Path, new: &NewFile, keys: &Keys, expected: &mut impl Read) -> Result<(), Error> {
    let failed = || Error::io(path);
    new.file().sync_all().and_then(|()| new.file().rewind()).map_err(failed())?;
    let mut found = keys.decrypt(path, BufReader::new(new.file()))?;
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    loop {
        let len = fill(expected, &mut left).map_err(failed())?;
        let same = fill(&mut found, &mut right).map_err(failed())? == len && left[..len] == right[..len];
        if !same {
            return Err(Error::Caused(
                Cause::Damaged,
                format!("{}: the file differs from what was written", path.display()),
            ));
        }
        if len == 0 {
            return Ok(());
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match input.read(&mut buffer[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}
