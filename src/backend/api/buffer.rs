//! The buffer of a caller.

use crate::error::{Error, Result};

/// Returns the first `len` bytes of the caller's buffer.
pub(in crate::backend) fn output(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    out.get_mut(..len).ok_or(Error::BufferTooSmall { needed: len })
}
