//! Detects commits of any process without a call to SQLite, which would take locks.
//!
//! The header of the write-ahead log's index changes with every commit ("WAL-mode File Format",
//! 2.2.1: change counter, frames, salts, checksum). The index is the file `-shm` beside the
//! database, which SQLite maps into memory. The probe reads its first 48 bytes.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::OFlags;

use crate::file;

/// The first copy of the index header.
pub(super) type Header = [u8; 48];

/// A probe for the index file of one database.
pub(super) struct Probe {
    file: Option<Arc<File>>,
    seen: Mutex<Option<Header>>,
}

/// The index files that this process has open. Closing a file can release all locks that the
/// process has on it, including SQLite's. So the process has one handle for each file, and closes
/// it after the last connection.
static OPEN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

struct Known {
    /// The process that opened the file. A forked child does not use its parent's handle.
    process: u32,
    path: PathBuf,
    file: Weak<File>,
}

impl Probe {
    /// Returns the probe of the database at `path`. A connection must have read the database
    /// before, because this creates the index. If the index cannot be opened, every `read` returns
    /// `None`.
    pub(super) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-shm");
        Self { file: open_shared(Path::new(&name)), seen: Mutex::default() }
    }

    /// Returns a probe without a file: each check asks SQLite.
    pub(super) fn off() -> Self {
        Self { file: None, seen: Mutex::default() }
    }

    /// Returns the current header; `None` if it cannot be read.
    pub(super) fn read(&self) -> Option<Header> {
        let mut header = [0; 48];
        self.file.as_ref()?.read_exact_at(&mut header, 0).ok()?;
        Some(header)
    }

    /// Returns whether this is the header of the last known state.
    pub(super) fn remembers(&self, header: Option<Header>) -> bool {
        header.is_some() && *self.lock_seen() == header
    }

    /// Remembers the header of a known state. The header must have been read before the state.
    pub(super) fn remember(&self, header: Option<Header>) {
        *self.lock_seen() = header;
    }

    fn lock_seen(&self) -> MutexGuard<'_, Option<Header>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_shared(path: &Path) -> Option<Arc<File>> {
    // A thread of the parent may have held the lock at the fork. Then there is no probe, and each
    // check asks SQLite.
    let mut open = OPEN.try_lock().ok()?;
    open.retain(|known| known.file.strong_count() > 0);
    let process = std::process::id();
    let known = open.iter().find(|known| known.process == process && known.path == path);
    if let Some(file) = known.and_then(|known| known.file.upgrade()) {
        return same(&file, path).then_some(file);
    }
    let file = Arc::new(file::open(path, OFlags::RDONLY, 0).ok()?);
    open.push(Known { process, path: path.to_owned(), file: Arc::downgrade(&file) });
    Some(file)
}

/// Returns whether this path still names this file.
fn same(file: &File, path: &Path) -> bool {
    let place = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (own, named) = (file.metadata().map(place), std::fs::symlink_metadata(path).map(place));
    matches!((own, named), (Ok(own), Ok(named)) if own == named)
}
