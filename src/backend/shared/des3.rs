//! Triple DES (SP 800-67, FIPS 46-3) for both backends. It is obsolete, and available only if the
//! configuration enables it.

use des::TdesEde3;
use des::cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use jeton_crypto::library::BlockCipher;
use jeton_crypto::modes::{Cbc, Ecb, Ending};
use jeton_secret::{CIPHER_DEPTH, wipe_stack};

use crate::backend::api::{Cipher, Direction, blocks, way};
use crate::error::{Error, Result};

/// The length of a block in bytes.
const BLOCK: usize = 8;
/// The length of a key in bytes, with parity bits.
pub const KEY: usize = 24;

/// Checks whether each byte has an odd number of set bits.
pub fn has_parity(key: &[u8]) -> bool {
    key.iter().all(|byte| byte.count_ones() % 2 == 1)
}

/// Sets the parity bit of each byte, which is its lowest bit.
pub fn set_parity(key: &mut [u8]) {
    key.iter_mut().for_each(|byte| *byte ^= u8::from(byte.count_ones().is_multiple_of(2)));
}

/// Builds a cipher in ECB. Fails with `KeySizeRange` if the key does not have [`KEY`] bytes.
pub(in crate::backend) fn ecb(key: &[u8], direction: Direction) -> Result<Box<dyn Cipher>> {
    blocks(Ecb(Des3::new(key, direction)?), Ending::Whole, direction)
}

/// Builds a cipher in CBC. Fails like [`ecb`].
pub(in crate::backend) fn cbc(
    key: &[u8],
    iv: &[u8; BLOCK],
    padded: bool,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    let ending = if padded { Ending::Padded } else { Ending::Whole };
    blocks(Cbc::new(Des3::new(key, direction)?, way(direction), iv), ending, direction)
}

/// The block cipher in one direction. The library wipes the round keys on drop. They are boxed,
/// because otherwise each move of this struct would leave a copy of them in memory.
struct Des3 {
    cipher: Box<TdesEde3>,
    direction: Direction,
}

impl Des3 {
    fn new(key: &[u8], direction: Direction) -> Result<Self> {
        let cipher = Self::schedule(key);
        wipe_stack::<CIPHER_DEPTH>();
        Ok(Self { cipher: cipher?, direction })
    }

    /// Computes the round keys. Copies of them remain on the stack, which the caller wipes.
    #[inline(never)]
    fn schedule(key: &[u8]) -> Result<Box<TdesEde3>> {
        TdesEde3::new_from_slice(key).map(Box::new).map_err(|_| Error::KeySizeRange)
    }
}

impl BlockCipher<BLOCK> for Des3 {
    fn process(&mut self, blocks: &mut [[u8; BLOCK]]) -> jeton_crypto::Result<()> {
        let blocks = Block::<TdesEde3>::cast_slice_from_core_mut(blocks);
        match self.direction {
            Direction::Encrypt => self.cipher.encrypt_blocks(blocks),
            Direction::Decrypt => self.cipher.decrypt_blocks(blocks),
        }
        Ok(())
    }

    fn duplicate(&self) -> jeton_crypto::Result<Self> {
        Ok(Self { cipher: self.cipher.clone(), direction: self.direction })
    }
}
