//! Identifies the files of an open token by device and inode, because their names can change. Also
//! detects changes of token files, and has the rules for their permissions.

use std::fs::{File, Metadata, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::file;

/// The extension of a token file's write-ahead log.
pub(super) const JOURNAL: &str = "jeton-wal";

/// The identity of a file, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns whether this is the number of the file's inode.
    pub(crate) fn has_inode(self, inode: u64) -> bool {
        self.inode == inode
    }
}

/// A stamp of a token file. It differs after the file was changed or replaced, if it was
/// [settled](Self::is_settled).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The identity of the token file.
    pub(crate) file: FileId,
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
const STEP: Duration = Duration::from_millis(50);

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
pub(crate) struct DirectoryStamp {
    id: FileId,
    change: Change,
}

impl DirectoryStamp {
    /// Returns the stamp of the directory at `path`. `None` if it does not exist, or changed so
    /// recently that a change after this moment could give the same stamp.
    pub(crate) fn settled(path: &Path) -> Option<Self> {
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
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        let journals = self.changes[1] == other.changes[1] || self.journal_len() + other.journal_len() == 0;
        self.file == other.file && self.changes[0] == other.changes[0] && journals
    }

    /// Returns whether a change after this moment would give another stamp. The clock of the file
    /// system has steps, so the last change must be some steps ago. Call it right after the stamp
    /// was taken.
    pub(super) fn is_settled(&self) -> bool {
        self.was_settled(SystemTime::now())
    }

    /// Returns whether a change after that moment would give another stamp.
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

/// The names of the files of an open token, and the files that had these names when the token was
/// opened.
pub(super) struct Place {
    id: FileId,
    files: Vec<(PathBuf, FileId)>,
}

impl Place {
    /// Records the files of the token at `path`, which SQLite has open.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let id = FileId::from(&std::fs::symlink_metadata(path)?);
        let mut files = vec![(path.to_owned(), id)];
        for suffix in ["-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            // A read-only file may have neither.
            if let Ok(data) = std::fs::symlink_metadata(&name) {
                files.push((name.into(), FileId::from(&data)));
            }
        }
        Ok(Self { id, files })
    }

    /// Returns the identity of the token file.
    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Fails if a name now belongs to another file, or to no file: other processes would not see
    /// what is written.
    pub(super) fn verify(&self) -> Result<()> {
        for (path, id) in &self.files {
            let found = std::fs::symlink_metadata(path).map(|data| FileId::from(&data));
            let what = match found {
                Ok(found) if found == *id => continue,
                Ok(_) => "another file has the name",
                Err(reason) if reason.kind() == ErrorKind::NotFound => "no file has the name",
                Err(reason) => return Err(reason),
            };
            return Err(Error::other(format!("{what} {:?}", path.file_name().unwrap_or_default())));
        }
        Ok(())
    }
}

/// Fails if a token file is not a regular file, or if every user may write to it.
pub(super) fn check_file(data: &Metadata) -> Result<()> {
    if !data.is_file() {
        return Err(Error::other("this is not a regular file"));
    }
    if data.mode() & EVERYBODY_WRITES != 0 {
        return Err(Error::other("every user may write to this file: chmod o-w"));
    }
    Ok(())
}

/// A problem with the permissions of a token directory.
pub(super) enum Exposure {
    /// Every user may remove and replace files.
    Everybody,
    /// Other users may add files, a group may replace them in a directory that is not shared, or
    /// another user owns the directory.
    Some(&'static str),
}

/// Returns the mode of new files in a directory. Only their owner may read and write them, except
/// in a shared directory, where the directory's group may too.
pub(crate) fn mode_in(dir: &Path) -> Result<u32> {
    Ok(if is_shared(std::fs::metadata(dir)?.mode()) { OWNER | GROUP } else { OWNER })
}

/// Returns the mode of a new file beside a token file: the token file's own, without rights for
/// users outside its group.
pub(crate) fn mode_beside(token: &Path) -> u32 {
    std::fs::metadata(token).map_or(OWNER, |data| data.mode() & (OWNER | GROUP))
}

/// Opens a file as [`file::open`] does, or creates it. A new file gets exactly this mode, also
/// where the process's umask takes rights away from groups.
pub(super) fn open_or_create(path: &Path, flags: OFlags, mode: u32) -> Result<File> {
    let file = file::open(path, flags | OFlags::CREATE, mode)?;
    if mode & GROUP != 0 {
        let data = file.metadata()?;
        let own = data.uid() == rustix::process::geteuid().as_raw();
        if own && data.len() == 0 && data.mode() & (OWNER | GROUP) != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
    }
    Ok(file)
}

/// Returns whether the administrator shares a directory with a group: its group may write, and new
/// files belong to this group (setgid).
fn is_shared(mode: u32) -> bool {
    mode & GROUP_WRITES != 0 && mode & SETGID != 0
}

/// Checks the permissions of a token directory, as ssh checks its own. Some installations let a
/// group write to a directory or use a directory of another user, so the caller only warns about
/// these.
pub(super) fn exposure(data: &Metadata) -> Option<Exposure> {
    let mode = data.mode();
    if mode & EVERYBODY_WRITES != 0 && mode & STICKY == 0 {
        return Some(Exposure::Everybody);
    }
    if mode & EVERYBODY_WRITES != 0 {
        return Some(Exposure::Some("every user may add files to this directory"));
    }
    if mode & GROUP_WRITES != 0 && !is_shared(mode) {
        return Some(Exposure::Some("a group may write to this directory, which is not setgid"));
    }
    let owner = data.uid();
    let own = rustix::process::geteuid().as_raw();
    (owner != 0 && owner != own).then_some(Exposure::Some("this directory belongs to another user"))
}

const OWNER: u32 = 0o600;
const GROUP: u32 = 0o060;
const EVERYBODY_WRITES: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
