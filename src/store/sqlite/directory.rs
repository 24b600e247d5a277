//! Lists the files of a token directory.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use tracing::{error, warn};

use super::direct::{Found, Reader};
use super::failure::log_io_failure;
use super::open::{EXTENSION, ROLLBACK};
use super::stamp::{JOURNAL, Stamp};
use super::stored::SqliteStore;
use crate::error::{Error, Result};
use crate::store::permissions::{self, Exposure};
use crate::store::{descriptors, is_serial};

/// A file of a token directory that has the name of a token file.
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// The inode in the directory's entry. For a symbolic link it is the inode of the link.
    pub(super) inode: u64,
    /// Whether the directory has a write-ahead log or a rollback journal beside the file.
    has_log: bool,
    /// Whether the name of the file is not a serial number.
    has_other_name: bool,
}

impl Entry {
    /// Returns the stamp of the file; `None` if it does not exist any more.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        Stamp::of(&self.path)
    }

    /// Reads the header of a token without SQLite. `None` if only SQLite can read it.
    pub(super) fn header(&self, reader: &mut Reader) -> Option<Found> {
        // `has_log` is from the time of the list. A log that appeared later has only later changes.
        // Without them, the header is as it was at that time, or newer.
        if self.has_log { None } else { reader.read(&self.path) }
    }
}

impl SqliteStore {
    /// Checks the permissions of a token directory. Fails with `DeviceError` if every user may
    /// replace files in it.
    pub(crate) fn check_directory(dir: &Path) -> Result<()> {
        let Ok(data) = std::fs::metadata(dir) else { return Ok(()) };
        match permissions::exposure(&data) {
            Some(Exposure::Everybody) => {
                error!(
                    dir = %dir.display(),
                    "token directory refused: every user may replace its files; chmod o-w or chmod +t"
                );
                Err(Error::DeviceError)
            }
            Some(Exposure::Some(what)) => {
                warn!(dir = %dir.display(), "token directory: {what}");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the token files of a directory, sorted; an empty list if the directory does not
    /// exist. Files that are named after a serial number come first. So a copy under another name
    /// does not replace its original.
    pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
        Ok(Self::entries(dir)?.into_iter().map(|entry| entry.path).collect())
    }

    /// Like `files`, with the facts that the directory contains about each file.
    pub(super) fn entries(dir: &Path) -> Result<Vec<Entry>> {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(reason) if descriptors::is_shortage(&reason) => {
                return Err(log_io_failure(dir, "list the tokens", &reason));
            }
            // A program of a user who has no tokens here may only list slots. The tool says what is
            // wrong, and the log at level warn.
            Err(reason) if reason.kind() == std::io::ErrorKind::PermissionDenied => {
                warn!(dir = %dir.display(), "token directory: {reason}");
                return Err(Error::DeviceError);
            }
            Err(reason) => {
                error!(dir = %dir.display(), "token directory: {reason}");
                return Err(Error::DeviceError);
            }
        };
        let (mut files, mut logs) = (Vec::new(), HashSet::new());
        for entry in entries.flatten() {
            sort_in(&entry, &mut files, &mut logs);
        }
        for file in files.iter_mut().filter(|_| !logs.is_empty()) {
            file.has_log = logs.contains(file.path.file_stem().unwrap_or_default());
        }
        files.sort_unstable_by(|one, other| {
            let names = || one.path.as_os_str().cmp(other.path.as_os_str());
            one.has_other_name.cmp(&other.has_other_name).then_with(names)
        });
        Ok(files)
    }

    /// Reads the header of a token file without SQLite. `None` if only SQLite can read it.
    pub(super) fn closed_header(path: &Path) -> Option<Found> {
        // The log is looked up before the file is read: a log that appears later has only newer
        // states.
        let beside = |extension| std::fs::symlink_metadata(path.with_extension(extension));
        let log = beside(JOURNAL).is_ok_and(|log| log.len() > 0);
        if log || beside(ROLLBACK).is_ok() { None } else { Reader::default().read(path) }
    }
}

/// Adds a token file to `files`. If the entry is a write-ahead log or a rollback journal, adds the
/// name of its token to `logs`.
fn sort_in(entry: &DirEntry, files: &mut Vec<Entry>, logs: &mut HashSet<OsString>) {
    let name = PathBuf::from(entry.file_name());
    let (Some(stem), Some(extension)) = (name.file_stem(), name.extension()) else { return };
    if extension == OsStr::new(EXTENSION) {
        let (path, inode) = (entry.path(), entry.ino());
        files.push(Entry { path, inode, has_log: false, has_other_name: !is_serial(stem.as_bytes()) });
    } else if extension == OsStr::new(JOURNAL) || extension == OsStr::new(ROLLBACK) {
        logs.insert(stem.to_owned());
    }
}
