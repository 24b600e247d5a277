//! Identifies token files by device and inode, because their names can change. Also detects changes
//! of token files and of their directory.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The extension of a token file's write-ahead log.
pub(super) const JOURNAL: &str = "jeton-wal";
/// The extension of a rollback journal, which token files never have.
pub(super) const ROLLBACK: &str = "jeton-journal";

/// The identity of a file, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    pub(super) inode: u64,
}

/// A stamp of a token file. It differs after the file was changed or replaced, if it was
/// [settled](Self::was_settled).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The identity of the token file.
    pub(super) file: FileId,
    /// The length and the time of the last change (ctime), of the file and of its journal.
    changes: [Option<Change>; 2],
}

/// The length of a file and the time of its last change.
type Change = (u64, i64, i64);

fn change(data: &Metadata) -> Change {
    (data.len(), data.ctime(), data.ctime_nsec())
}

/// The age at which a change is settled: several steps of a file system's clock, which has steps of
/// up to 10 ms.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// Returns whether a change happened at least [`STEP`] before that moment.
fn is_before((_, seconds, nanoseconds): &Change, moment: SystemTime) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(*seconds), u32::try_from(*nanoseconds)) else {
        return false;
    };
    let time = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    // A time in the future is not settled: a later change could get the same time.
    moment.duration_since(time).is_ok_and(|age| age >= STEP)
}

/// A stamp of a directory. It differs after a file was added, removed or renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirectoryStamp {
    id: FileId,
    change: Change,
}

impl DirectoryStamp {
    /// Returns the stamp of the directory at `path`. `None` if it does not exist, or changed so
    /// recently that a change after this moment could give the same stamp.
    pub(super) fn settled(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        let change = change(&data);
        is_before(&change, SystemTime::now()).then(|| Self { id: FileId::from(&data), change })
    }
}

impl Stamp {
    /// Returns the stamp of the token file at `path`; `None` if the file does not exist.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let data = std::fs::symlink_metadata(path).ok()?;
        let journal = std::fs::symlink_metadata(path.with_extension(JOURNAL)).ok();
        Some(Self { file: FileId::from(&data), changes: [Some(change(&data)), journal.as_ref().map(change)] })
    }

    /// Returns the stamp of a token file with this metadata, and without a journal.
    pub(super) fn alone(data: &Metadata) -> Self {
        Self { file: FileId::from(data), changes: [Some(change(data)), None] }
    }

    /// Returns whether nothing was written between two stamps. An empty journal is the same as no
    /// journal: SQLite creates and removes it when it opens and closes the file.
    pub(super) fn has_content_of(&self, other: &Self) -> bool {
        let journals = self.changes[1] == other.changes[1] || self.journal_len() + other.journal_len() == 0;
        self.file == other.file && self.changes[0] == other.changes[0] && journals
    }

    /// Returns whether a change after that moment would give another stamp. The clock of the file
    /// system has steps, so the last change must be some steps before.
    pub(super) fn was_settled(&self, moment: SystemTime) -> bool {
        self.changes.iter().flatten().all(|change| is_before(change, moment))
    }

    /// Returns the length of the journal; 0 if it does not exist.
    pub(super) fn journal_len(&self) -> u64 {
        self.changes[1].map_or(0, |(len, ..)| len)
    }
}

impl From<&Metadata> for FileId {
    fn from(data: &Metadata) -> Self {
        Self { device: data.dev(), inode: data.ino() }
    }
}
