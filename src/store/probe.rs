//! A look at whether any process committed anything, without a question to SQLite, which would take its locks.
//!
//! The header of the write-ahead log's index differs after every commit ("WAL-mode File Format", 2.2.1: change counter,
//! frames, salts, checksum). SQLite maps that file, which stands beside the database; here its first 48 bytes are read.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The first copy of the header.
pub(super) type Header = [u8; 48];

/// The index of one database.
pub(super) struct Probe {
    file: Option<Arc<File>>,
    seen: Mutex<Option<Header>>,
}

/// The index files that this process has open. Closing a file lets go of all locks that the process has on it, those of
/// SQLite too: so there is one handle of each, and it is closed after the last connection.
static OPEN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

struct Known {
    /// A child of a fork leaves its parent's alone.
    process: u32,
    path: PathBuf,
    file: Weak<File>,
}

impl Probe {
    /// Of the database at `path`, which has been read from. Every look fails where the index cannot be opened.
    pub(super) fn beside(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push("-shm");
        Self { file: shared(Path::new(&name)), seen: Mutex::default() }
    }

    /// The header now; `None` where it cannot be read.
    pub(super) fn look(&self) -> Option<Header> {
        let mut header = [0; 48];
        self.file.as_ref()?.read_exact_at(&mut header, 0).ok()?;
        Some(header)
    }

    /// Whether that header is the one of the last state that was known.
    pub(super) fn remembers(&self, header: Option<Header>) -> bool {
        header.is_some() && *self.seen() == header
    }

    /// The header of a state that is known. It was read before the state.
    pub(super) fn remember(&self, header: Option<Header>) {
        *self.seen() = header;
    }

    fn seen(&self) -> MutexGuard<'_, Option<Header>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shared(path: &Path) -> Option<Arc<File>> {
    // A thread of a parent may have held the lock at the fork: then there is no probe, and SQLite is asked each time.
    let mut open = OPEN.try_lock().ok()?;
    open.retain(|known| known.file.strong_count() > 0);
    let process = std::process::id();
    let known = open.iter().find(|known| known.process == process && known.path == path);
    if let Some(file) = known.and_then(|known| known.file.upgrade()) {
        return same(&file, path).then_some(file);
    }
    let file = Arc::new(File::open(path).ok()?);
    open.push(Known { process, path: path.to_owned(), file: Arc::downgrade(&file) });
    Some(file)
}

/// Whether the file of that name is still this one.
fn same(file: &File, path: &Path) -> bool {
    let place = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (own, named) = (file.metadata().map(place), std::fs::metadata(path).map(place));
    matches!((own, named), (Ok(own), Ok(named)) if own == named)
}
