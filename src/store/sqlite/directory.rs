//! Lists the files of a token directory.

use std::fs::DirEntry;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use tracing::{error, warn};

use super::failure::log_io_failure;
use super::open::EXTENSION;
use super::stored::SqliteStore;
use crate::error::{Error, Result};
use crate::store::{descriptors, is_serial, permissions};

/// A file of a token directory that has the name of a token file.
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// The inode in the directory's entry. For a symbolic link it is the inode of the link.
    pub(super) inode: u64,
    /// Whether the name of the file is not a serial number.
    has_other_name: bool,
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
        let mut files: Vec<_> = entries.flatten().filter_map(|entry| token_file(&entry)).collect();
        files.sort_unstable_by(|one, other| {
            let names = || one.path.as_os_str().cmp(other.path.as_os_str());
            one.has_other_name.cmp(&other.has_other_name).then_with(names)
        });
        Ok(files)
    }
}

/// Returns an entry of the directory that has the name of a token file.
fn token_file(entry: &DirEntry) -> Option<Entry> {
    let name = PathBuf::from(entry.file_name());
    let (stem, extension) = (name.file_stem()?, name.extension()?);
    let file = Entry { path: entry.path(), inode: entry.ino(), has_other_name: !is_serial(stem.as_bytes()) };
    (extension == EXTENSION).then_some(file)
}
