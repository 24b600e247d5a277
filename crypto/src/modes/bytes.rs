//! What the modes do with bytes.

use crate::error::{Error, Result};

/// XORs `mask` into `data`, up to the shorter length.
#[inline]
pub fn xor(data: &mut [u8], mask: &[u8]) {
    for (byte, mask) in data.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Returns the first `len` bytes of the caller's buffer.
#[inline]
pub(super) fn output(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    out.get_mut(..len).ok_or(Error::TooSmall { needed: len })
}
