//! Bytes that are wiped when they are dropped, never printed and never copied by accident.

use std::ops::{Deref, DerefMut};

use zeroize::Zeroize;

/// Secret bytes: a key, a PIN, a decrypted record. No `Debug`, no `Clone`.
#[derive(Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes over; no copy is left behind.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// `len` zero bytes, to be filled in place.
    pub fn zeroed(len: usize) -> Self {
        Self(vec![0; len])
    }

    /// A second copy, asked for by name.
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }

    /// Appends, wiping the old place when the bytes have to move.
    pub fn extend(&mut self, more: &[u8]) {
        if self.0.capacity() - self.0.len() < more.len() {
            let mut grown = Vec::with_capacity((self.0.len() + more.len()).next_power_of_two());
            grown.extend_from_slice(&self.0);
            self.0.zeroize();
            self.0 = grown;
        }
        self.0.extend_from_slice(more);
    }

    /// Wipes the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.0.as_mut_slice().zeroize();
        self.0.clear();
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
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

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// So much of the stack is wiped: without optimisation the `aes` crate goes 10 KiB deep.
const STACK: usize = 16 << 10;

/// Wipes the stack below the caller: what functions that returned have left there, the schedule of a key that they moved.
#[inline(never)]
pub fn wipe_stack() {
    let clean = [0u8; STACK];
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
