//! Reads files that a configuration names.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The longest file in bytes.
const LONGEST: u64 = 16 << 20;

/// Reads a regular file, or a device such as `/dev/null`. A FIFO is an error: the process would
/// wait for a writer. So is a long file, which would fill its memory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    if file.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
