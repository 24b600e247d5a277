//! Backups of Jeton's tokens: one file in the format of age (age-encryption.org/v1), for a
//! passphrase or for X25519 recipients.
//!
//! The encrypted content is a line with the version, a line of JSON ([`Header`]), and the token's
//! store as SQLite copied it.

mod age;
mod protection;

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::output::{Existing, NewFile};
use crate::token_file::{self, Copy, Facts, Login, Restore, TokenFile};
use crate::{Cause, Error};

pub use age::{Identity, Reader, Recipient};
pub use protection::{Keys, Protection, SHORTEST_PASSPHRASE, new_identity, read_keys, recipient_of};

/// The first line of the content.
const VERSION: &str = "jeton backup 1\n";
/// The longest line of the content in bytes. It bounds the memory that a hostile file costs.
const LONGEST_LINE: u64 = 64 << 10;
/// The length of the parts that are compared.
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
    let header = Header::of(&token_file::check(&copy, login)?);
    match output {
        Output::Stream(stream) => {
            protection.encrypt(stream, |plain| write_content(plain, &header, &copy))?;
        }
        Output::File(path, existing) => {
            let new = NewFile::create(path, existing)?;
            let keys = protection.encrypt(&mut new.file(), |plain| write_content(plain, &header, &copy))?;
            compare(path, &new, &keys, (&header, &copy))?;
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
}

impl Opened {
    /// Decrypts a backup into a new file of this directory, and checks what can be checked without
    /// a PIN. `name` is for messages.
    pub fn open(name: &Path, input: impl Read, keys: &Keys, directory: &Path) -> Result<Self, Error> {
        let damaged = |reason: &str| Error::Caused(Cause::Damaged, format!("{}: {reason}", name.display()));
        let mut content = keys.decrypt(name, BufReader::new(input))?;
        if read_line(name, &mut content)? != VERSION.as_bytes() {
            return Err(damaged("this is not a backup of a token, or one of a newer version"));
        }
        let header: Header = serde_json::from_slice(&read_line(name, &mut content)?)
            .map_err(|_| damaged("the header of the backup is malformed"))?;
        let copy = token_file::receive(directory, &header.serial, &mut content)?;
        let facts = token_file::check(&copy, None)?;
        let same = (&facts.serial, &facts.label, facts.objects, facts.state)
            == (&header.serial, &header.label, header.objects, header.state);
        if !same {
            return Err(damaged("the header of the backup does not fit its store"));
        }
        Ok(Self { header, facts, copy })
    }

    /// Opens every record with the key that the PIN unwraps.
    pub fn check(&self, login: Login<'_>) -> Result<(), Error> {
        token_file::check(&self.copy, Some(login)).map(drop)
    }

    /// Restores the backup as a token in the configured directory. Returns the facts about the
    /// token and the path of its file.
    pub fn restore(self, how: Restore<'_>) -> Result<(Facts, PathBuf), Error> {
        token_file::restore(self.copy, how)
    }
}

fn write_content(plain: &mut dyn Write, header: &Header, copy: &Copy) -> Result<(), Error> {
    let failed = || Error::io("backup");
    plain.write_all(VERSION.as_bytes()).map_err(failed())?;
    plain.write_all(&line(header)?).map_err(failed())?;
    std::io::copy(&mut token_file::contents(copy)?, plain).map(drop).map_err(failed())
}

fn line(header: &Header) -> Result<Vec<u8>, Error> {
    let mut line = serde_json::to_vec(header).map_err(|error| Error::Failed(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

fn read_line(name: &Path, content: &mut impl BufRead) -> Result<Vec<u8>, Error> {
    let mut line = Vec::new();
    content.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Error::io(name))?;
    Ok(line)
}

/// Fails unless the file decrypts to this content.
fn compare(path: &Path, new: &NewFile, keys: &Keys, written: (&Header, &Copy)) -> Result<(), Error> {
    let failed = || Error::io(path);
    new.file().sync_all().and_then(|()| new.file().rewind()).map_err(failed())?;
    let mut found = keys.decrypt(path, BufReader::new(new.file()))?;
    let head = [VERSION.as_bytes(), &line(written.0)?].concat();
    let mut expected = head.as_slice().chain(token_file::contents(written.1)?);
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    loop {
        let len = fill(&mut expected, &mut left).map_err(failed())?;
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
