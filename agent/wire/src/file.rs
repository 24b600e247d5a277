//! Reads files that a configuration names.

use std::io::{self, Read};
use std::path::Path;

use crate::system;

/// The longest file in bytes.
const LONGEST: u64 = 16 << 20;

/// Reads a regular file, or a device such as `/dev/null`. A FIFO is an error: the process would
/// wait for a writer. So is a long file, which would fill its memory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, is_readable) = system::open(path)?;
    if !is_readable {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    if file.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
