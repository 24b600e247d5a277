//! Reads files and directories within limits.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{Error, Secret};

/// The largest object file in bytes. Useful objects are much shorter.
const MAX_FILE: u64 = 16 << 20;

/// The largest number of bytes of all objects together.
const MAX_STORE: u64 = 1 << 30;

/// The largest number of entries of a directory. Each object has two: its file and its lock file.
const MAX_ENTRIES: usize = 1 << 21;

/// Reads a regular file. Refuses other files, because a FIFO would block and a device has no end.
/// Fails if the file is longer than [`MAX_FILE`].
pub(crate) fn read(path: &Path) -> Result<Secret, Error> {
    let metadata = fs::metadata(path).map_err(Error::io(path))?;
    if !metadata.is_file() {
        return Err(Error::damaged(path, "not a regular file"));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    let file = File::open(path).map_err(Error::io(path))?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(Error::io(path))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::damaged(path, format!("longer than {MAX_FILE} bytes")));
    }
    Ok(bytes)
}

/// A limit on the bytes of all values together.
pub(crate) struct Budget<'a> {
    path: &'a Path,
    left: u64,
}

impl<'a> Budget<'a> {
    /// Allows [`MAX_STORE`] bytes for a directory of files.
    pub(crate) fn of_directory(path: &'a Path) -> Self {
        Self { path, left: MAX_STORE }
    }

    /// Allows as many bytes as the database file has, and at most [`MAX_STORE`]. A hostile database
    /// could compute values that it does not store.
    pub(crate) fn of_database(path: &'a Path) -> Result<Self, Error> {
        let length = fs::metadata(path).map_err(Error::io(path))?.len();
        Ok(Self { path, left: length.min(MAX_STORE) })
    }

    /// Counts the bytes of a value. Fails if the limit is exceeded.
    pub(crate) fn take(&mut self, length: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(length as u64);
        self.left =
            left.ok_or_else(|| Error::damaged(self.path, "the total length of its values is too large"))?;
        Ok(())
    }
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
        paths.push(entry.map_err(Error::io(directory))?.path());
        if paths.len() > MAX_ENTRIES {
            return Err(Error::damaged(directory, format!("more than {MAX_ENTRIES} entries")));
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_budget_are_refused() {
        let mut budget = Budget { path: Path::new("store"), left: 10 };
        assert!(budget.take(4).is_ok());
        assert!(budget.take(6).is_ok());
        assert!(budget.take(1).is_err());
    }
}
