//! A counter file with the last change number of a token, separate from the token's file. An
//! attacker who restores an older copy of the token's file must also restore the counter.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracing::error;

use super::{Change, permissions};
use crate::error::{Error, Result};
use crate::file;
use crate::file_lock::{self, Mode};

/// The length of the longest number in bytes, with room for line breaks.
const LONGEST: u64 = 32;

/// The counter of one token: a file that holds a decimal number.
pub struct Counter(PathBuf);

impl Counter {
    /// Returns the counter of the token with this serial number. Its file is in this directory.
    pub fn of(directory: &Path, serial: &str) -> Self {
        Self(directory.join(serial).with_extension("counter"))
    }

    /// Returns the last change number that was noted; 0 if there is no file. Fails without its
    /// directory: a volume that is not mounted must not look like a token without a counter.
    pub fn read(&self) -> Result<Change> {
        self.mode().map_err(|reason| self.log_failure(&format!("its directory: {reason}")))?;
        let mut text = String::new();
        let read = file::open(&self.0, OFlags::RDONLY, 0)
            .and_then(|file| file.take(LONGEST).read_to_string(&mut text));
        match read {
            Ok(_) => text.trim().parse().map(Change).map_err(|_| self.log_failure(&"not a number")),
            Err(reason) if reason.kind() == ErrorKind::NotFound => Ok(Change(0)),
            Err(reason) => Err(self.log_failure(&reason)),
        }
    }

    /// Notes the change number of a commit. Keeps a later number that was already noted: another
    /// process may have been faster, and a rolled-back store must not reset its counter. The file
    /// is not synced. After a power cut the counter may have an earlier number, which causes no
    /// false alarm.
    pub fn note(&self, change: Change) -> Result<()> {
        let lock = self.lock().map_err(|reason| self.log_failure(&reason))?;
        let outcome = self.read().and_then(|noted| {
            if noted < change {
                self.write(change).map_err(|reason| self.log_failure(&reason))
            } else {
                Ok(())
            }
        });
        // Closing the file would not release the lock: a child that was forked in the meantime has
        // the file open too.
        let _ = lock.unlock();
        outcome
    }

    /// Takes the lock of the counter. Without it, the lower of two numbers could be written last.
    fn lock(&self) -> std::io::Result<File> {
        let file = self.create(&self.0.with_extension("counter-lock"), OFlags::RDWR)?;
        file_lock::acquire(&file, Mode::Exclusive, file_lock::LIMIT)?;
        Ok(file)
    }

    /// Writes a new file and renames it, so that a crash never leaves a partial number. The caller
    /// holds the lock.
    fn write(&self, change: Change) -> std::io::Result<()> {
        let fresh = self.0.with_extension("counter-new");
        // A process that was killed may have left this file. Another user may have made it, so its
        // content is not trusted either.
        match fs::remove_file(&fresh) {
            Err(reason) if reason.kind() != ErrorKind::NotFound => return Err(reason),
            _ => {}
        }
        let mut file = self.create(&fresh, OFlags::WRONLY | OFlags::EXCL)?;
        let text = change.0.to_string();
        file::expect_allowed(text.len() as u64)?;
        file.write_all(text.as_bytes())?;
        drop(file);
        fs::rename(&fresh, &self.0)
    }

    fn create(&self, path: &Path, flags: OFlags) -> std::io::Result<File> {
        permissions::open_or_create(path, flags, self.mode()?)
    }

    /// Returns the mode of the counter's files. It is that of new token files: in a shared
    /// directory, the group may read and write them. Fails in a directory to which every user may
    /// write: anyone could make a file there that prevents every login.
    fn mode(&self) -> std::io::Result<u32> {
        permissions::mode_in(self.0.parent().unwrap_or(Path::new(".")))
    }

    fn log_failure(&self, reason: &dyn std::fmt::Display) -> Error {
        error!(file = %self.0.display(), "counter: {reason}");
        Error::DeviceError
    }
}
