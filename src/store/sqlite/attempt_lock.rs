//! A lock that is held while a PIN is tried. Each attempt counts a failure before it tries the PIN,
//! and resets the count if the PIN is right. During that time, concurrent attempts with the right
//! PIN look like failures. An attempt that finds the limit reached waits until it is alone, and
//! checks again.
//!
//! The lock is on a separate file (flock(2)). The kernel releases it when the process dies, unless
//! a forked child has the file open. The lock is independent of SQLite's locks.

use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::file;
use crate::file_lock::{self, Mode};
use crate::store::permissions;

/// The lock of an attempt. The attempt holds it until it has reset the count of failures or has
/// failed. The lock has no file if the file cannot be created because the disk is full or
/// read-only.
pub struct AttemptLock(Option<File>);

impl AttemptLock {
    /// Takes the lock of the database at `path`. Waits up to `file_lock::LIMIT` while another
    /// process or thread holds it. `Mode::Shared` waits only for a holder in `Mode::Exclusive`.
    pub(super) fn beside(path: &Path, mode: Mode) -> Result<Self> {
        let name = name(path);
        // The file is opened each time, so that threads of one process also wait for each other.
        let file = match permissions::open_or_create(&name, OFlags::RDWR, permissions::mode_beside(path)) {
            Err(reason) if cannot_be_made(reason.kind()) => match file::open(&name, OFlags::RDONLY, 0) {
                Err(reason) if file::is_refusal(&reason) => return Err(reason),
                opened => opened.ok(),
            },
            opened => Some(opened?),
        };
        if let Some(file) = &file {
            file_lock::acquire(file, mode, file_lock::LIMIT)?;
        }
        Ok(Self(file))
    }
}

impl Drop for AttemptLock {
    fn drop(&mut self) {
        // Closing the file would not release the lock if a child that was forked in the meantime
        // has the file open too.
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

/// Returns the name of the lock file of the database at `path`.
pub(super) fn name(path: &Path) -> PathBuf {
    file::beside(path, "-lock")
}

/// Returns whether a file cannot be created because the disk is full or read-only for this process.
fn cannot_be_made(reason: ErrorKind) -> bool {
    use ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(reason, PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}
