//! Bytes that are wiped when they are dropped, never printed and never copied by accident.

use std::ops::{Deref, DerefMut};

use allocator_api2::vec::Vec as GuardedVec;
use zeroize::Zeroize;

mod pages;

#[cfg(all(test, target_os = "linux"))]
pub(crate) use pages::flags_of;
pub use pages::forget_parent;

use pages::Guarded;

/// Secret bytes: a key, a PIN, a decrypted record. No `Debug`, no `Clone`. Their memory is locked where the system allows
/// it, and wiped when it is given back.
pub struct Secret(GuardedVec<u8, Guarded>);

impl Secret {
    /// Takes the bytes over; no copy is left behind.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let secret = Self::from(&bytes[..]);
        bytes.zeroize();
        secret
    }

    /// `len` zero bytes, to be filled in place.
    pub fn zeroed(len: usize) -> Self {
        let mut bytes = GuardedVec::with_capacity_in(len, Guarded);
        bytes.resize(len, 0);
        Self(bytes)
    }

    /// A second copy, asked for by name.
    pub fn duplicate(&self) -> Self {
        Self::from(&self.0[..])
    }

    /// Appends. The old place is wiped when the bytes have to move.
    pub fn extend(&mut self, more: &[u8]) {
        let len = self.0.len();
        // Not `extend_from_slice`, which goes byte by byte.
        self.0.resize(len + more.len(), 0);
        self.0[len..].copy_from_slice(more);
    }

    /// Wipes the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.0.as_mut_slice().zeroize();
        self.0.clear();
    }
}

impl Default for Secret {
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
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// How deep ciphers and codes go on the stack: without optimisation 10 KiB.
pub const CIPHER_DEPTH: usize = 16 << 10;

/// Wipes so many bytes of the stack below the caller: what functions that returned have left there, such as the schedule of
/// a key that they moved.
#[inline(never)]
pub fn wipe_stack<const BYTES: usize>() {
    let clean = [0u8; BYTES];
    // It has to be there, zeros and all.
    std::hint::black_box(&clean);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extend_keeps_the_bytes_across_a_move() {
        let mut secret = Secret::new(Vec::with_capacity(2));
        for byte in 0..=255u8 {
            secret.extend(&[byte]);
        }
        assert_eq!(&secret[..], (0..=255u8).collect::<Vec<_>>().as_slice());
        secret.clear();
        assert!(secret.is_empty());
    }
}
