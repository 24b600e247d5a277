//! A reserve of disk space. When the disk is full, it allows the token to destroy objects and to
//! count wrong PINs.
//!
//! The reserve is in the lock file of the [attempt lock](super::attempt_lock), which has no other
//! content. SQLite needs new blocks for each write to its log. Truncating the file gives blocks
//! back to the file system. A file system that compresses zeros or copies on write keeps a smaller
//! reserve, or no reserve.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::{attempt_lock, place};

/// The length of the reserve in bytes: enough for SQLite's index file and for the pages that change
/// when some objects are removed.
const LEN: u64 = 256 * 1024;
const STEP: usize = 32 * 1024;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Allocates the reserve of the token file at `path`, or the part of it that fits on the disk.
pub(super) fn take(path: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let file = place::open(options, place::mode_beside(path), &attempt_lock::name(path))?;
    let mut len = if is_whole(&file)? { LEN } else { 0 };
    while len < LEN {
        file.write_all_at(&[0; STEP], len)?;
        len += STEP as u64;
    }
    Ok(())
}

/// Gives the reserve of the token file at `path` back to the file system.
pub(super) fn give_back(path: &Path) -> Result<()> {
    OpenOptions::new().write(true).open(attempt_lock::name(path))?.set_len(0)
}

fn is_whole(file: &File) -> Result<bool> {
    let file = file.metadata()?;
    Ok(file.len() >= LEN && file.blocks() * BLOCK >= LEN)
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
}
