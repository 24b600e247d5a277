//! XTS (SP 800-38E, IEEE 1619).

use subtle::ConstantTimeEq;

use super::blocks::Chain;
use super::bytes::xor;
use crate::error::{Error, Result, require};
use crate::library::{BlockCipher, Direction};

/// The length of a block in bytes.
const N: usize = 16;
/// SP 800-38E, 4: a data unit has at most 2^20 blocks.
const MAX_UNIT: usize = N << 20;
/// The number of blocks that are processed at once.
const BATCH: usize = 16;

/// Returns the half of a key for the data, and the half for the tweak. Fails with `Length` if the
/// key does not have 32 or 64 bytes, and with `Invalid` if the halves are equal.
pub fn halves(key: &[u8]) -> Result<(&[u8], &[u8])> {
    require(matches!(key.len(), 32 | 64), Error::Length)?;
    let (data, tweak) = key.split_at(key.len() / 2);
    // FIPS 140-3 IG, C.I: XTS with two equal keys is not secure.
    if bool::from(data.ct_eq(tweak)) { Err(Error::Invalid) } else { Ok((data, tweak)) }
}

/// Fails with `Length` if a data unit cannot have this number of bytes.
pub fn within_unit(len: usize) -> Result<()> {
    require((N..=MAX_UNIT).contains(&len), Error::Length)
}

/// The chain of one data unit.
pub struct Xts<B> {
    cipher: B,
    first: u128,
    tweak: u128,
    len: usize,
}

impl<B: BlockCipher<N>> Xts<B> {
    /// Builds the chain. `cipher` has the half of the key for the data, and works in the
    /// direction of the mode. `tweak` is already encrypted.
    pub fn new(cipher: B, tweak: [u8; N]) -> Self {
        let first = u128::from_le_bytes(tweak);
        Self { cipher, first, tweak: first, len: 0 }
    }

    /// Encrypts or decrypts blocks. `tweak` belongs to the first block. Returns the tweak for the
    /// block after them.
    fn blocks(&mut self, mut tweak: u128, blocks: &mut [[u8; N]]) -> Result<u128> {
        for batch in blocks.chunks_mut(BATCH) {
            let mut tweaks = [[0; N]; BATCH];
            for (block, masked) in batch.iter_mut().zip(&mut tweaks) {
                *masked = tweak.to_le_bytes();
                xor(block, masked);
                tweak = next(tweak);
            }
            self.cipher.process(batch)?;
            for (block, tweak) in batch.iter_mut().zip(&tweaks) {
                xor(block, tweak);
            }
        }
        Ok(tweak)
    }

    fn count(&mut self, len: usize) -> Result<()> {
        self.len = self.len.saturating_add(len);
        require(self.len <= MAX_UNIT, Error::Length)
    }
}

impl<B: BlockCipher<N>> Chain<N> for Xts<B> {
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.count(input.len())?;
        out.copy_from_slice(input);
        self.tweak = self.blocks(self.tweak, out.as_chunks_mut().0)?;
        Ok(())
    }

    // IEEE 1619, 5.3.2: the result for the last whole block is cut in two. Its end completes the
    // short block, which is processed next. Its front becomes the last, short block of the output.
    fn steal(&mut self, direction: Direction, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.count(input.len())?;
        // Decryption uses the two tweaks in the opposite order.
        let (near, far) = match direction {
            Direction::Encrypt => (self.tweak, next(self.tweak)),
            Direction::Decrypt => (next(self.tweak), self.tweak),
        };
        out.copy_from_slice(input);
        let (block, rest) = out.split_at_mut(N);
        self.blocks(near, block.as_chunks_mut().0)?;
        rest.swap_with_slice(&mut block[..rest.len()]);
        self.blocks(far, block.as_chunks_mut().0)?;
        Ok(())
    }

    fn start_over(&mut self) -> Result<()> {
        self.tweak = self.first;
        self.len = 0;
        Ok(())
    }

    fn duplicate(&self) -> Result<Self> {
        Ok(Self { cipher: self.cipher.duplicate()?, ..*self })
    }
}

/// Returns the tweak times x in GF(2^128), little-endian.
fn next(tweak: u128) -> u128 {
    (tweak << 1) ^ ((tweak >> 127) * 0x87)
}
