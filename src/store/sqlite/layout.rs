//! The names of the files of a token directory.
//!
//! Each token has a directory of its own below the token directory. The name of this directory is
//! the serial number, and all files of the token are in it, so that a sandbox can admit a process
//! to one token. Older versions put the files of all tokens beside each other: such a token is
//! *flat*.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tracing::error;

use crate::error;
use crate::file;
use crate::store::{is_serial, permissions};

/// The extension of a token file.
pub(crate) const EXTENSION: &str = "jeton";

/// Returns the path of the token file with this serial number, in a directory of its own below the
/// token directory.
pub fn path_of(tokens: &Path, serial: &str) -> PathBuf {
    tokens.join(serial).join(serial).with_extension(EXTENSION)
}

/// Returns the token's own directory that has this token file, or this file beside it. `None` if
/// the token is flat.
pub fn own_directory(path: &Path) -> Option<&Path> {
    let directory = path.parent()?;
    let name = directory.file_name()?;
    (is_serial(name.as_bytes()) && path.file_stem() == Some(name)).then_some(directory)
}

/// Fails if a token's own directory is a symbolic link, or if every user may write to it.
pub(super) fn check(path: &Path) -> Result<()> {
    let Some(directory) = own_directory(path) else { return Ok(()) };
    permissions::check_own_directory(&std::fs::symlink_metadata(directory)?)
}

/// Fails with `TokenNotRecognized` if a token file is in the directory of another serial number.
pub(crate) fn check_serial(path: &Path, serial: &str) -> error::Result<()> {
    if own_directory(path).and_then(Path::file_name).is_none_or(|name| name == serial) {
        return Ok(());
    }
    error!(file = %path.display(), serial, "this file has the token of another directory");
    Err(error::Error::TokenNotRecognized)
}

/// Returns the files of a token directory that have this extension: flat ones, and those of tokens
/// in their own directories. An empty list if the directory does not exist.
pub(crate) fn files_with(tokens: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(tokens) {
        Err(reason) if reason.kind() == ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| is_serial(name.as_bytes())) {
            let file = path.join(path.file_name().unwrap_or_default()).with_extension(extension);
            files.extend(Some(file).filter(|file| check(file).is_ok() && !is_missing(file)));
        } else if path.extension().is_some_and(|known| known == extension) {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns whether no file has this name.
pub(super) fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|reason| reason.kind() == ErrorKind::NotFound)
}

/// Makes the directories of a token file. The group of a shared token directory may use a new own
/// directory, too. Fails if the directory exists and [`check`] would refuse it.
pub(crate) fn make_directories(path: &Path) -> Result<()> {
    let parent = path.parent().ok_or(Error::from(ErrorKind::InvalidInput))?;
    let Some(own) = own_directory(path) else { return permissions::create_directory(parent) };
    if let Some(tokens) = own.parent() {
        permissions::create_directory(tokens)?;
    }
    permissions::create_own_directory(own)
}

/// Syncs the directory of a token file, and the token directory above its own one, so that new
/// names survive a crash.
pub(crate) fn sync_directories(path: &Path) -> Result<()> {
    file::sync_directory_of(path)?;
    own_directory(path).map_or(Ok(()), file::sync_directory_of)
}

/// Removes the own directory of a token file if it is empty.
pub fn remove_empty_directory(path: &Path) {
    if let Some(own) = own_directory(path) {
        let _ = std::fs::remove_dir(own);
    }
}
