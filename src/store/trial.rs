//! The time while a PIN is tried. Its failure is counted before, and forgiven after: many who try the right PIN at once
//! would look like as many failures. So who finds the limit reached waits until he is alone, and looks again.
//!
//! A lock of a file of its own (flock(2)): the kernel lets go of it when a process dies, and it has nothing to do with
//! SQLite's locks.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Held from the count to the forgiveness.
pub struct Trial(File);

impl Trial {
    /// Beside the database at `path`. `alone` waits for all the others.
    pub(super) fn beside(path: &Path, alone: bool) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push("-lock");
        // Opened each time: threads of one process wait for each other too.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(name)?;
        if alone {
            file.lock()?
        } else {
            file.lock_shared()?
        }
        Ok(Self(file))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Closing would not do: a child that was forked meanwhile has the file open too.
        let _ = self.0.unlock();
    }
}
