//! A draft of a token file. Only its owner may read it, and its name is not that of a token.
//! Dropping the draft removes the file.

use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::file;
use crate::store::sqlite::layout;

/// Only the owner may read and write the file.
const MODE: u32 = 0o600;
/// The endings of the files that SQLite makes beside a file.
const BESIDE: &[&str] = &["-journal", "-wal", "-shm"];

/// The file. Its lock shows other processes that it is in use.
pub(super) struct Draft {
    path: PathBuf,
    file: File,
    is_published: bool,
}

impl Draft {
    /// Creates an empty file with this name, or takes over the file of a process that was killed.
    /// Fails with `ResourceBusy` if another process uses the file.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        layout::make_directories(&path)?;
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(reason)) => return Err(reason),
            Err(TryLockError::WouldBlock) => return Err(busy()),
        }
        // The process that held the lock may have removed or renamed the file.
        let (named, open) = (std::fs::symlink_metadata(&path), file.metadata()?);
        if !named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino())) {
            return Err(busy());
        }
        let draft = Self { path, file, is_published: false };
        draft.file.set_len(0)?;
        draft.file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
        file::remove_beside(&draft.path, BESIDE);
        Ok(draft)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file these permissions.
    pub(super) fn set_mode(&self, mode: u32) -> Result<()> {
        self.file.set_permissions(std::fs::Permissions::from_mode(mode))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its final name, which may be in another token's directory. Fails with
    /// `AlreadyExists` if another file has that name.
    pub(super) fn publish(mut self, path: &Path) -> Result<()> {
        layout::make_directories(path)?;
        self.file.sync_all()?;
        file::remove_beside(&self.path, BESIDE);
        // A link would not replace a file either, but other processes refuse a file with two names.
        match renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE) {
            // The file system does not support the flag.
            Err(Errno::INVAL) if path.symlink_metadata().is_err() => std::fs::rename(&self.path, path)?,
            Err(reason) => {
                layout::remove_empty_directory(path);
                return Err(reason.into());
            }
            Ok(()) => {}
        }
        self.is_published = true;
        layout::remove_empty_directory(&self.path);
        layout::sync_directories(path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Another process may have made a new draft with the same name.
        if self.is_published {
            return;
        }
        // Remove the files before the lock ends. Otherwise another process could take over this
        // file and then lose it.
        file::remove_beside(&self.path, BESIDE);
        let _ = std::fs::remove_file(&self.path);
        layout::remove_empty_directory(&self.path);
    }
}

/// Opens the file, or creates it. Replaces a file of another user, who could read what is written.
fn open(path: &Path) -> Result<File> {
    let file = file::open(path, OFlags::RDWR | OFlags::CREATE, MODE)?;
    if file.metadata()?.uid() == rustix::process::geteuid().as_raw() {
        return Ok(file);
    }
    std::fs::remove_file(path)?;
    file::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, MODE)
}

fn busy() -> Error {
    Error::new(ErrorKind::ResourceBusy, "another process backs up, restores or moves this token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_use_is_refused_and_a_leftover_is_taken_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = directory.path().join("new");
        let path = folder.join("a.new");
        let draft = Draft::create(path.clone()).expect("a new file");
        assert!(Draft::create(path.clone()).is_err_and(|reason| reason.kind() == ErrorKind::ResourceBusy));
        drop(draft);
        assert!(!path.exists());
        std::fs::write(&path, b"left over").expect("it is writable");
        std::fs::write(folder.join("a.new-journal"), b"left over").expect("it is writable");
        let draft = Draft::create(path.clone()).expect("a leftover");
        assert!(!folder.join("a.new-journal").exists());
        let data = path.metadata().expect("a file");
        assert_eq!((data.len(), data.mode() & 0o777), (0, MODE));
        let name = folder.join("a.jeton");
        draft.publish(&name).expect("a new name");
        assert!(name.exists() && !path.exists());
        let other = Draft::create(path.clone()).expect("a new file");
        assert!(other.publish(&name).is_err_and(|reason| reason.kind() == ErrorKind::AlreadyExists));
    }
}
