//! The lines of a record, and how they get into its file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use ssh_key::{Algorithm, HashAlg, PublicKey};

use super::paper::Document;
use crate::output_file::{self, Existing};
use crate::{Cause, Error, audit};

/// The longest record in bytes.
const LONGEST: u64 = 64 << 20;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    /// The first line.
    Begin {
        purpose: String,
        /// The version of the tool, and the SHA-256 hash of its program.
        tool: String,
        program: String,
        /// The public keys of those present, as in OpenSSH's files.
        present: Vec<String>,
    },
    /// A command of this tool starts.
    Command { arguments: Vec<String> },
    /// The command of the line before has exited.
    Exit { status: Option<i32>, output: String, errors: String, files: Vec<Document> },
    /// What a person wrote.
    Note { text: String },
    /// The last line.
    End {},
}

/// A line without its hash.
#[derive(Serialize, Deserialize)]
pub struct Line {
    pub number: u64,
    pub time: String,
    #[serde(flatten)]
    pub event: Event,
}

/// The public key of a person.
#[derive(Clone, Debug)]
pub struct Present(pub PublicKey);

impl Present {
    /// Reads a line as in a file `id_ed25519.pub`.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let key = PublicKey::from_openssh(line.trim()).map_err(|_| {
            Error::Failed("not a public key of OpenSSH: a line as in id_ed25519.pub".to_owned())
        })?;
        match key.algorithm() {
            Algorithm::Ed25519
            | Algorithm::SkEd25519
            | Algorithm::SkEcdsaSha2NistP256
            | Algorithm::Ecdsa { .. } => Ok(Self(key)),
            other => {
                Err(Cause::Refused.error(format!("no signatures with {other} here: use Ed25519 or ECDSA")))
            }
        }
    }

    /// Reads the public key of a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = String::from_utf8(read(path)?).unwrap_or_default();
        Self::parse(&text).map_err(|error| Cause::Damaged.error(format!("{}: {error}", path.display())))
    }

    /// Returns the comment of the key and its fingerprint.
    pub fn name(&self) -> String {
        let comment = self.0.comment().to_string();
        format!("{comment} {}", self.0.fingerprint(HashAlg::Sha256)).trim_start().to_owned()
    }
}

/// Starts a new record.
pub fn begin(path: &Path, purpose: &str, present: &[Present]) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(Error::io("/proc/self/exe"))?;
    let event = Event::Begin {
        purpose: purpose.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        program: super::paper::hash_file(&program)?,
        present: present.iter().map(|one| one.0.to_string()).collect(),
    };
    output_file::write(path, line(None, 1, event)?.0.as_bytes(), Existing::Keep)
}

/// Returns a line and its hash.
fn line(before: Option<&str>, number: u64, event: Event) -> Result<(String, String), Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = der::DateTime::from_unix_duration(since)?.to_string();
    let text = serde_json::to_string(&Line { number, time, event });
    let line = text.ok().and_then(|text| audit::line(before, &text));
    line.ok_or_else(|| Error::Failed("the line of the record has no JSON".to_owned()))
}

/// A record that has not ended. No other process writes to it meanwhile.
pub struct Recorder {
    path: PathBuf,
    file: File,
    number: u64,
    last: Option<String>,
}

impl Recorder {
    /// Opens a record to add lines. Fails if it is damaged or has ended.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(Error::io(path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::Failed(format!("{}: another command of this ceremony has not ended", path.display()))
        })?;
        let bytes = read(path)?;
        let report = audit::verify_log(&bytes[..]).map_err(Error::io(path))?;
        let damaged = |text: String| Cause::Damaged.error(format!("{}: {text}", path.display()));
        if let Some((line, fault)) = report.breaks.first() {
            return Err(damaged(format!("line {line} {fault}")));
        }
        let all = lines(&bytes).map_err(|line| damaged(format!("line {line} is not one of a ceremony")))?;
        match all.last().map(|line| &line.event) {
            None => Err(damaged("this is no record of a ceremony".to_owned())),
            Some(Event::End {}) => {
                Err(Cause::Refused.error(format!("{}: this ceremony has ended", path.display())))
            }
            Some(_) => Ok(Self { path: path.to_owned(), file, number: report.valid, last: report.last }),
        }
    }

    /// Adds a line, which is on the disk at the end.
    pub fn add(&mut self, event: Event) -> Result<(), Error> {
        let (line, hash) = line(self.last.as_deref(), self.number + 1, event)?;
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(Error::io(&self.path))?;
        self.number += 1;
        self.last = Some(hash);
        Ok(())
    }
}

/// Reads a file that is no longer than a record may be.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(Error::io(path))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Error::Failed(format!("{} is larger than {LONGEST} bytes", path.display())));
    }
    Ok(bytes)
}

/// Returns the lines of a record. Fails with the number of the first one that this tool would not
/// write.
pub fn lines(record: &[u8]) -> Result<Vec<Line>, u64> {
    match whole_lines(record) {
        (lines, None) => Ok(lines),
        (_, Some(damaged)) => Err(damaged),
    }
}

/// Returns the lines of a record before the first one that this tool would not write, and the
/// number of that one.
pub fn whole_lines(record: &[u8]) -> (Vec<Line>, Option<u64>) {
    let mut all = Vec::new();
    for (line, number) in record.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        match parse(line) {
            Some(line) => all.push(line),
            None => return (all, Some(number)),
        }
    }
    (all, None)
}

fn parse(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let object = audit::object(text)?;
    let line: Line = serde_json::from_str(&object).ok()?;
    // A line with another field or order says more to a reader than to this tool.
    (serde_json::to_string(&line).ok()? == object).then_some(line)
}
