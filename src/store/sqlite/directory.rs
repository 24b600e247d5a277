//! Lists the files of a token directory.

use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use tracing::{error, warn};

use super::failure::log_io_failure;
use super::layout::{self, EXTENSION};
use super::token_store::SqliteStore;
use crate::error::{Error, Result};
use crate::store::{descriptors, is_serial, permissions};

/// A path below a token directory that may lead to a token file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    name: Name,
    pub(super) path: PathBuf,
    /// The inode in the directory's entry of a flat file. For a symbolic link it is the inode of
    /// the link.
    pub(super) inode: Option<u64>,
}

/// What a token file is named after. A later one does not replace an earlier one with the same
/// serial number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// The serial number, which its own directory is named after, too.
    OwnDirectory,
    Serial,
    Other,
}

impl SqliteStore {
    /// Checks the permissions of a token directory. Fails with `DeviceError` if every user may
    /// write to it or to a directory on the way to it.
    pub(crate) fn check_directory(dir: &Path) -> Result<()> {
        let Ok(data) = std::fs::metadata(dir) else { return Ok(()) };
        permissions::check_directory(dir).map_err(|reason| {
            error!(dir = %dir.display(), "token directory refused: {reason}");
            Error::DeviceError
        })?;
        if let Some(what) = permissions::exposure(&data) {
            warn!(dir = %dir.display(), "token directory: {what}");
        }
        Ok(())
    }

    /// Returns the token files of a directory, sorted; an empty list if the directory does not
    /// exist. Tokens with a directory of their own come first, then flat files that are named after
    /// a serial number. So a copy under another name does not replace its original.
    pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
        let paths = Self::entries(dir)?.into_iter().map(|entry| entry.path);
        // Another process may be making the token of a new directory.
        Ok(paths.filter(|path| !layout::is_missing(path)).collect())
    }

    /// Like `files`, with the facts that the directory contains about each file. Also returns the
    /// path of a file that is missing in its own directory.
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
        let mut files: Vec<_> = entries.flatten().filter_map(|entry| token_file(dir, &entry)).collect();
        files.sort_unstable();
        Ok(files)
    }
}

impl Entry {
    /// Returns the token file with this serial number, in its own directory.
    pub(super) fn own(tokens: &Path, serial: &str) -> Self {
        Self { name: Name::OwnDirectory, path: layout::path_of(tokens, serial), inode: None }
    }
}

/// Returns the token file of an entry of the directory: a file that has the name of a token file,
/// or the file in a token's own directory.
fn token_file(dir: &Path, entry: &DirEntry) -> Option<Entry> {
    let name = entry.file_name();
    if is_serial(name.as_bytes()) {
        // A symbolic link is refused when the token is opened, so that the log names it.
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        return if is_file { None } else { Some(Entry::own(dir, name.to_str()?)) };
    }
    let name = Path::new(&name);
    let (stem, extension) = (name.file_stem()?, name.extension()?);
    let named = if is_serial(stem.as_bytes()) { Name::Serial } else { Name::Other };
    let file = Entry { name: named, path: entry.path(), inode: Some(entry.ino()) };
    (extension == EXTENSION).then_some(file)
}
