//! A reserve of disk space. When the disk is full, it allows the token to destroy objects and to
//! count wrong PINs.
//!
//! The reserve is in the lock file of the [attempt lock](super::attempt_lock): zeros, and no other
//! content. A file with other content is not the reserve and stays as it is. SQLite needs new
//! blocks for each write to its log. Truncating the file gives blocks back to the file system. A
//! file system that compresses zeros or copies on write keeps a smaller reserve, or no reserve.

use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rusqlite::{Connection, ffi};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use super::{OpenFile, attempt_lock};
use crate::file;
use crate::store::{fork, permissions};

/// The length of the reserve in bytes: enough for SQLite's index file and for the pages that change
/// when some objects are removed.
const LEN: u64 = 256 * 1024;
const STEP: usize = 32 * 1024;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Allocates the reserve of the token file at `path`, or the part of it that fits on the disk.
pub(super) fn take(path: &Path) -> Result<()> {
    let file =
        permissions::open_or_create(&attempt_lock::name(path), OFlags::RDWR, permissions::mode_beside(path))?;
    let known = file.metadata()?;
    if known.len() >= LEN && known.blocks() * BLOCK >= LEN {
        return Ok(());
    }
    expect_zeros(&file)?;
    file::expect_allowed(LEN)?;
    (0..LEN).step_by(STEP).try_for_each(|at| file.write_all_at(&[0; STEP], at))
}

/// Gives the reserve of the token file at `path` back to the file system.
pub(super) fn give_back(path: &Path) -> Result<()> {
    let file = file::open(&attempt_lock::name(path), OFlags::RDWR, 0)?;
    expect_zeros(&file)?;
    file.set_len(0)
}

impl OpenFile {
    /// Gives the main file the blocks of its new pages before they are committed to the log. So a
    /// full disk has room to copy the log, which frees it. Some file systems cannot do this.
    pub(super) fn allocate(&self, connection: &Connection) -> rusqlite::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            let need = (number("page_count")? * number("page_size")?).cast_unsigned();
            let len = std::fs::metadata(&self.path).map_or(u64::MAX, |file| file.len());
            let fill = || {
                let file = file::open(&self.path, OFlags::RDWR, 0).map_err(|_| Errno::IO)?;
                fallocate(&file, FallocateFlags::KEEP_SIZE, len, need - len)
            };
            let is_full = || matches!(fill(), Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG));
            // fallocate(2) ignores the limit of the process if the file keeps its length.
            let is_too_long = file::expect_allowed(need).is_err();
            if need > len && (is_too_long || fork::locks_belong_to_descriptions() && is_full()) {
                return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None));
            }
        }
        Ok(())
    }
}

/// Fails if the file is longer than the reserve, or has a byte that is not zero.
fn expect_zeros(file: &File) -> Result<()> {
    let (mut bytes, mut at) = ([0; STEP], 0);
    loop {
        let read = file.read_at(&mut bytes, at)?;
        at += read as u64;
        if at > LEN || bytes[..read].iter().any(|byte| *byte != 0) {
            return Err(Error::other("the lock file of the token has a content that is not the reserve"));
        }
        if read == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_allocated_released_and_allocated_again() {
        let path = std::env::temp_dir().join(format!("jeton-reserve-{}.jeton", std::process::id()));
        let len = || std::fs::metadata(attempt_lock::name(&path)).expect("a file").len();
        take(&path).expect("room");
        assert_eq!(len(), LEN);
        give_back(&path).expect("room");
        assert_eq!(len(), 0);
        take(&path).expect("room");
        assert_eq!(len(), LEN);
        std::fs::remove_file(attempt_lock::name(&path)).expect("a file");
    }

    #[test]
    fn a_file_that_is_not_the_reserve_is_neither_overwritten_nor_emptied() {
        let path = std::env::temp_dir().join(format!("jeton-not-reserve-{}.jeton", std::process::id()));
        let lock = attempt_lock::name(&path);
        let whole = [vec![0; LEN as usize - 1], vec![1]].concat();
        for content in [&b"text"[..], &[0; LEN as usize + 1], &whole] {
            std::fs::write(&lock, content).expect("a file");
            let _ = take(&path);
            assert!(give_back(&path).is_err());
            assert!(std::fs::read(&lock).expect("a file") == content);
        }
        std::fs::remove_file(lock).expect("a file");
    }
}
