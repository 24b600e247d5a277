//! The last state of a token's store, kept apart from it: somebody who puts an older copy of the token's file back does
//! not reach it, or has to put back both.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tracing::error;

use super::Change;
use crate::error::{Error, Result};

/// The counter of one token: a file that holds a decimal number.
pub struct Counter(PathBuf);

impl Counter {
    /// In that directory, of the token with that serial number.
    pub fn of(directory: &Path, serial: &str) -> Self {
        Self(directory.join(serial).with_extension("counter"))
    }

    /// The last state that was noted; the first one where none was.
    pub fn read(&self) -> Result<Change> {
        match fs::read_to_string(&self.0) {
            Ok(text) => text.trim().parse().map(Change).map_err(|_| self.failed(&"not a number")),
            Err(reason) if reason.kind() == ErrorKind::NotFound => Ok(Change(0)),
            Err(reason) => Err(self.failed(&reason)),
        }
    }

    /// Notes a state that the store has reached for good. Not synced: after a power cut it may be an earlier one, and
    /// accuses nobody.
    pub fn note(&self, change: Change) -> Result<()> {
        let fresh = self.0.with_extension(format!("counter-{}", std::process::id()));
        let write = || {
            fs::write(&fresh, change.0.to_string())?;
            fs::rename(&fresh, &self.0)
        };
        write().map_err(|reason| self.failed(&reason))
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> Error {
        error!(file = %self.0.display(), "counter: {reason}");
        Error::DeviceError
    }
}
