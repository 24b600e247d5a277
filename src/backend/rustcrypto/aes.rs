//! The AES block cipher (FIPS 197) with keys of every length. The modes are built on it.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use jeton_crypto::library::BlockCipher;
use jeton_secret::{CIPHER_DEPTH, wipe_stack};

use crate::backend::api::Direction;
use crate::error::{Error, Result};

/// The length of a block in bytes.
pub(super) const BLOCK: usize = 16;
pub(super) type Block = [u8; BLOCK];

/// The library wipes the round keys on drop. They are boxed, because each move would leave a copy
/// in memory.
#[derive(Clone)]
pub(super) enum Aes {
    K128(Box<Aes128>),
    K192(Box<Aes192>),
    K256(Box<Aes256>),
}

impl Aes {
    pub(super) fn new(key: &[u8]) -> Result<Self> {
        let cipher = Self::schedule(key);
        wipe_stack::<CIPHER_DEPTH>();
        cipher
    }

    /// Computes the round keys. Copies of them remain on the stack, which the caller wipes.
    #[inline(never)]
    fn schedule(key: &[u8]) -> Result<Self> {
        let cipher = match key.len() {
            16 => Aes128::new_from_slice(key).map(Box::new).map(Self::K128),
            24 => Aes192::new_from_slice(key).map(Box::new).map(Self::K192),
            _ => Aes256::new_from_slice(key).map(Box::new).map(Self::K256),
        };
        cipher.map_err(|_| Error::KeySizeRange)
    }

    /// Encrypts independent blocks, several at once.
    pub(super) fn encrypt(&self, blocks: &mut [Block]) {
        let blocks = aes::Block::cast_slice_from_core_mut(blocks);
        match self {
            Self::K128(cipher) => cipher.encrypt_blocks(blocks),
            Self::K192(cipher) => cipher.encrypt_blocks(blocks),
            Self::K256(cipher) => cipher.encrypt_blocks(blocks),
        }
    }

    /// Decrypts independent blocks, several at once.
    pub(super) fn decrypt(&self, blocks: &mut [Block]) {
        let blocks = aes::Block::cast_slice_from_core_mut(blocks);
        match self {
            Self::K128(cipher) => cipher.decrypt_blocks(blocks),
            Self::K192(cipher) => cipher.decrypt_blocks(blocks),
            Self::K256(cipher) => cipher.decrypt_blocks(blocks),
        }
    }

    pub(super) fn encrypt_block(&self, block: &mut Block) {
        self.encrypt(std::slice::from_mut(block));
    }
}

/// AES in one direction.
pub(super) struct OneWay {
    aes: Aes,
    direction: Direction,
}

impl OneWay {
    pub(super) fn new(key: &[u8], direction: Direction) -> Result<Self> {
        Ok(Self { aes: Aes::new(key)?, direction })
    }
}

impl BlockCipher<BLOCK> for OneWay {
    fn process(&mut self, blocks: &mut [Block]) -> jeton_crypto::Result<()> {
        match self.direction {
            Direction::Encrypt => self.aes.encrypt(blocks),
            Direction::Decrypt => self.aes.decrypt(blocks),
        }
        Ok(())
    }

    fn duplicate(&self) -> jeton_crypto::Result<Self> {
        Ok(Self { aes: self.aes.clone(), direction: self.direction })
    }
}
