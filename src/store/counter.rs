//! A counter file with the last change number of a token, separate from the token's file. An
//! attacker who restores an older copy of the token's file must also restore the counter.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tracing::error;

use super::{Change, place};
use crate::error::{Error, Result};
use crate::file_lock::{self, Mode};

/// The counter of one token: a file that holds a decimal number.
pub struct Counter(PathBuf);

impl Counter {
    /// Returns the counter of the token with this serial number. Its file is in this directory.
    pub fn of(directory: &Path, serial: &str) -> Self {
        Self(directory.join(serial).with_extension("counter"))
    }

    /// Returns the last change number that was noted; 0 if there is no file.
    pub fn read(&self) -> Result<Change> {
        match fs::read_to_string(&self.0) {
            Ok(text) => text.trim().parse().map(Change).map_err(|_| self.log_failure(&"not a number")),
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
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = self.open(options, &self.0.with_extension("counter-lock"))?;
        file_lock::acquire(&file, Mode::Exclusive, file_lock::LIMIT)?;
        Ok(file)
    }

    /// Writes a new file and renames it, so that a crash never leaves a partial number. The caller
    /// holds the lock.
    fn write(&self, change: Change) -> std::io::Result<()> {
        let fresh = self.0.with_extension("counter-new");
        let mut file = self.open(OpenOptions::new().write(true).create(true).truncate(true), &fresh)?;
        file.write_all(change.0.to_string().as_bytes())?;
        drop(file);
        fs::rename(&fresh, &self.0)
    }

    /// Opens or creates a file of the counter. The mode is that of new token files: in a shared
    /// directory, the group may read and write it.
    fn open(&self, options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
        place::open(options, place::mode_in(self.0.parent().unwrap_or(Path::new(".")))?, path)
    }

    fn log_failure(&self, reason: &dyn std::fmt::Display) -> Error {
        error!(file = %self.0.display(), "counter: {reason}");
        Error::DeviceError
    }
}
