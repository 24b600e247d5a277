//! The keystream of counter mode (SP 800-38A, 6.5 and B.1). CTR, GCM and CCM use it.

use jeton_crypto::modes::xor;
use zeroize::Zeroizing;

use crate::backend::rustcrypto::aes::{Aes, BLOCK};

/// The number of keystream blocks that are computed at once.
const BATCH: usize = 8;

/// A counter in the last bits of a block. It wraps to zero; the mode decides whether a message may
/// be that long.
#[derive(Clone)]
pub(super) struct Counter {
    block: u128,
    /// The bits of the counter.
    mask: u128,
    keystream: Zeroizing<[u8; BATCH * BLOCK]>,
    used: usize,
}

impl Counter {
    pub(super) fn new(block: u128, mask: u128) -> Self {
        Self { block, mask, keystream: Zeroizing::new([0; BATCH * BLOCK]), used: BATCH * BLOCK }
    }

    /// XORs the next bytes of the keystream into `data`.
    pub(super) fn apply(&mut self, aes: &Aes, mut data: &mut [u8]) {
        while !data.is_empty() {
            if self.used == self.keystream.len() {
                self.refill(aes);
            }
            let (now, later) = data.split_at_mut(data.len().min(self.keystream.len() - self.used));
            xor(now, &self.keystream[self.used..]);
            self.used += now.len();
            data = later;
        }
    }

    fn refill(&mut self, aes: &Aes) {
        let (blocks, _) = self.keystream.as_chunks_mut::<BLOCK>();
        for block in &mut *blocks {
            *block = self.block.to_be_bytes();
            self.block = self.block & !self.mask | self.block.wrapping_add(1) & self.mask;
        }
        aes.encrypt(blocks);
        self.used = 0;
    }
}
