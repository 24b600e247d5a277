//! Bytes that are wiped when they are dropped. They have no `Debug`, and no implicit copy.
//!
//! On Unix they are in pages of their own, which are locked and left out of core dumps. On other
//! systems they are on the heap, and only wiped.

#![deny(unsafe_code)]

use std::ops::{Deref, DerefMut};

use allocator_api2::vec::Vec as GuardedVec;
use zeroize::Zeroize;

mod allocator;
mod error;
#[cfg(not(unix))]
mod heap;
#[cfg(feature = "serde")]
mod message;
#[cfg(unix)]
mod pages;
mod registers;
#[cfg(all(unix, feature = "stacks"))]
mod stack;

pub use allocator::{WipingAllocator, room_for};
pub use error::{OutOfMemory, Result};
#[cfg(all(any(test, feature = "testing"), target_os = "linux"))]
pub use pages::assert_protected;
#[cfg(unix)]
pub use pages::{Mapped, forget_parent};
pub use registers::clear_registers;
#[cfg(all(unix, feature = "stacks"))]
pub use stack::Stacks;

#[cfg(not(unix))]
pub use heap::forget_parent;

#[cfg(not(unix))]
use heap::Guarded;
#[cfg(unix)]
use pages::Guarded;

/// Secret bytes: a key, a PIN or a decrypted record. It has no `Debug` and no `Clone`. Its memory
/// is wiped when it is freed. A secret of at most 16 KiB is locked in memory as far as the limit
/// on locked memory allows.
pub struct Secret(GuardedVec<u8, Guarded>);

impl Secret {
    /// Moves the bytes into protected memory and wipes the original.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let secret = Self::from(&bytes[..]);
        bytes.zeroize();
        secret
    }

    /// Returns `len` zero bytes, for the caller to fill.
    pub fn zeroed(len: usize) -> Self {
        let mut bytes = GuardedVec::with_capacity_in(len, Guarded);
        bytes.resize(len, 0);
        Self(bytes)
    }

    /// Like [`Self::zeroed`], for a length that comes from the caller. Fails if there is not enough
    /// memory.
    pub fn try_zeroed(len: usize) -> Result<Self> {
        let mut secret = Self::default();
        secret.grow(len)?;
        Ok(secret)
    }

    /// Copies bytes whose length comes from the caller. Fails if there is not enough memory.
    pub fn try_copy(bytes: &[u8]) -> Result<Self> {
        let mut copy = Self::default();
        copy.extend(bytes)?;
        Ok(copy)
    }

    /// Copies the secret. It is not `Clone`, so that a search for this name finds every copy.
    pub fn duplicate(&self) -> Self {
        Self::from(&self.0[..])
    }

    /// Appends bytes. If the secret has to move, the old memory is wiped. Fails if there is
    /// not enough memory, and then leaves the secret unchanged.
    pub fn extend(&mut self, more: &[u8]) -> Result<()> {
        let len = self.0.len();
        // `extend_from_slice` would be slower: it copies byte by byte.
        self.grow(more.len())?;
        self.0[len..].copy_from_slice(more);
        Ok(())
    }

    /// Appends `by` zeros.
    fn grow(&mut self, by: usize) -> Result<()> {
        self.0.try_reserve(by).map_err(|_| OutOfMemory)?;
        self.0.resize(self.0.len() + by, 0);
        Ok(())
    }

    /// Wipes the bytes. Keeps the memory for the next message, unless it is larger than `KEPT`.
    #[inline]
    pub fn clear(&mut self) {
        if self.0.capacity() > KEPT {
            *self = Self::default();
        }
        self.0.as_mut_slice().zeroize();
        self.0.clear();
    }
}

/// The largest capacity in bytes that is kept for the next message.
pub const KEPT: usize = 1 << 20;

impl Default for Secret {
    #[inline]
    fn default() -> Self {
        Self(GuardedVec::new_in(Guarded))
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }
}

impl Deref for Secret {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Secret {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Copies bytes whose length comes from the caller. Fails if there is not enough memory.
pub fn try_boxed(bytes: &[u8]) -> Result<Box<[u8]>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| OutOfMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy.into())
}

/// The stack in bytes that ciphers and MACs can use. They use 10 KiB in a build without
/// optimisation.
pub const CIPHER_DEPTH: usize = 16 << 10;

/// Wipes this number of bytes of the stack below the caller. Functions that returned have left data
/// there, such as a key schedule that they moved.
#[inline(never)]
pub fn wipe_stack<const BYTES: usize>() {
    let clean = [0u8; BYTES];
    // Keeps the optimiser from removing the zeros.
    std::hint::black_box(&clean);
}

/// Runs `work` in a frame of its own, and wipes the stack below the caller afterwards. For work
/// that handles keys by value: a move also copies the unused bytes of an enum, and these may
/// contain an older part of a key.
pub fn with_wiped_frame<R>(work: impl FnOnce() -> R) -> R {
    #[inline(never)]
    fn call<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    let outcome = call(work);
    wipe_stack::<CIPHER_DEPTH>();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extend_keeps_the_bytes_across_a_move() {
        let mut secret = Secret::new(Vec::with_capacity(2));
        for byte in 0..=255u8 {
            secret.extend(&[byte]).expect("memory");
        }
        assert_eq!(&secret[..], (0..=255u8).collect::<Vec<_>>().as_slice());
        secret.clear();
        assert!(secret.is_empty());
    }
}
