//! The file beside an audit log, `audit.jsonl.end`, that has the number and the hash of its last
//! line. It stays when the log is moved away or emptied. So the next file continues the chain, and
//! a reader sees which lines are missing.
//!
//! A writer locks this file before it opens the log. So no process writes to a file that was moved
//! away while another one begins the next file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::file;
use crate::file_lock::{self, Mode};

/// The ending of the file's name.
const SUFFIX: &str = ".end";
/// The mode until the file has the one of the log.
const OWNER: u32 = 0o600;
/// The bits of a mode that say who may read and write.
const PERMISSIONS: u32 = 0o777;
/// The largest length of the content.
const LONGEST: u64 = 1024;

/// The last line of a log: its number and its hash. Number 0 is a log without a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub number: u64,
    pub hash: [u8; 32],
}

impl Last {
    /// A log without a line. The first line uses this hash as the one of the line before.
    pub(super) const NONE: Self = Self { number: 0, hash: [0; 32] };

    /// Reads the fields of a line. `None` if it is not a record.
    pub(super) fn of_line(line: &[u8]) -> Option<Self> {
        let fields: Fields<String> = serde_json::from_slice(line).ok()?;
        (fields.number < u64::MAX).then(|| Self { number: fields.number, hash: unhex(&fields.hash) })
    }
}

#[derive(Serialize, Deserialize)]
struct Fields<T> {
    number: u64,
    hash: T,
}

pub(super) struct EndFile(File);

impl EndFile {
    /// Opens the file of this log, or creates it. Returns `None` for a log on a device, which keeps
    /// no lines.
    pub(super) fn open(log: &Path) -> io::Result<Option<Self>> {
        if std::fs::metadata(log).is_ok_and(|data| !data.is_file()) {
            return Ok(None);
        }
        let path = file::beside(log, SUFFIX);
        file::open(&path, OFlags::RDWR | OFlags::CREATE, OWNER).map(|file| Some(Self(file)))
    }

    pub(super) fn lock(&self, patience: Duration) -> io::Result<()> {
        file_lock::acquire(&self.0, Mode::Exclusive, patience)
    }

    pub(super) fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }

    /// Lets the users of the log use this file too. Fails if it belongs to another user, who did
    /// the same.
    pub(super) fn share(&self, log: &File) -> io::Result<()> {
        let (this, log) = (self.0.metadata()?, log.metadata()?);
        if this.gid() != log.gid() {
            fchown(&self.0, None, Some(log.gid()))?;
        }
        if this.mode() & PERMISSIONS != log.mode() & PERMISSIONS {
            self.0.set_permissions(std::fs::Permissions::from_mode(log.mode() & PERMISSIONS))?;
        }
        Ok(())
    }

    /// Returns the last line that this file knows. The caller holds the lock.
    pub(super) fn read(&self) -> Option<Last> {
        Last::of_line(&self.content().ok()?)
    }

    fn content(&self) -> io::Result<Vec<u8>> {
        let (mut file, mut text) = (&self.0, Vec::new());
        file.seek(SeekFrom::Start(0))?;
        file.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Notes the last line. Fails if the file has another content. The caller holds the lock.
    pub(super) fn write(&self, last: &Last) -> io::Result<()> {
        let content = self.content()?;
        // A power cut may leave a new file with NULs.
        let is_new = content.iter().all(|byte| *byte == 0);
        if !is_new && Last::of_line(&content).is_none() {
            return Err(io::Error::other("this file has no number and hash of a line: move it away"));
        }
        let mut text = serde_json::to_vec(&Fields { number: last.number, hash: hex(&last.hash) })?;
        text.push(b'\n');
        let (mut file, len) = (&self.0, text.len() as u64);
        file::expect_allowed(len)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&text)?;
        self.0.set_len(len)
    }
}

pub(super) fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a hash. Invalid digits become zeros, so that the chain breaks there.
fn unhex(text: &str) -> [u8; 32] {
    let byte = |at| text.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    std::array::from_fn(|at| byte(at).unwrap_or_default())
}
