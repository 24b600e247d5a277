//! Modes whose output has the length of the input at each step: CTR, OFB and CFB with segments of
//! one bit (SP 800-38A), and ChaCha20.

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20::{ChaCha20, ChaCha20Legacy};
use jeton_crypto::modes::{Mode, xor};
use jeton_secret::Secret;
use zeroize::Zeroizing;

use super::ctr::Counter;
use crate::backend::api::{Cipher, Direction, streamed};
use crate::backend::rustcrypto::aes::{Aes, BLOCK, Block};
use crate::error::{Error, Result, require};

#[derive(Clone)]
pub(super) struct Ctr {
    aes: Aes,
    first: u128,
    mask: u128,
    counter: Counter,
    /// The number of bytes processed so far.
    len: u128,
}

impl Ctr {
    pub(super) fn new(aes: Aes, block: &Block, bits: u32) -> Result<Self> {
        require((1..=128).contains(&bits), Error::MechanismParamInvalid)?;
        let (first, mask) = (u128::from_be_bytes(*block), u128::MAX >> (128 - bits));
        Ok(Self { aes, first, mask, counter: Counter::new(first, mask), len: 0 })
    }
}

impl Mode for Ctr {
    fn apply(&mut self, data: &mut [u8]) -> jeton_crypto::Result<()> {
        self.counter.apply(&self.aes, data);
        self.len += data.len() as u128;
        Ok(())
    }

    fn fits(&self, len: usize) -> jeton_crypto::Result<()> {
        let blocks = (self.len + len as u128).div_ceil(BLOCK as u128);
        // `more` blocks can follow the first block before the counter wraps.
        let more = self.mask - (self.first & self.mask);
        if blocks > 0 && blocks - 1 > more { Err(jeton_crypto::Error::Length) } else { Ok(()) }
    }

    fn start_over(&mut self) {
        self.counter = Counter::new(self.first, self.mask);
        self.len = 0;
    }

    fn copied(&self) -> jeton_crypto::Result<Self> {
        Ok(self.clone())
    }
}

#[derive(Clone)]
pub(super) struct Ofb {
    aes: Aes,
    iv: Block,
    keystream: Zeroizing<Block>,
    used: usize,
}

impl Ofb {
    pub(super) fn new(aes: Aes, iv: &Block) -> Self {
        Self { aes, iv: *iv, keystream: Zeroizing::new(*iv), used: BLOCK }
    }
}

impl Mode for Ofb {
    fn apply(&mut self, mut data: &mut [u8]) -> jeton_crypto::Result<()> {
        while !data.is_empty() {
            if self.used == BLOCK {
                self.aes.encrypt_block(&mut self.keystream);
                self.used = 0;
            }
            let (now, later) = data.split_at_mut(data.len().min(BLOCK - self.used));
            xor(now, &self.keystream[self.used..]);
            self.used += now.len();
            data = later;
        }
        Ok(())
    }

    fn start_over(&mut self) {
        *self.keystream = self.iv;
        self.used = BLOCK;
    }

    fn copied(&self) -> jeton_crypto::Result<Self> {
        Ok(self.clone())
    }
}

/// CFB with segments of one bit. The highest bit of a byte is the first.
#[derive(Clone)]
pub(super) struct Cfb1 {
    aes: Aes,
    direction: Direction,
    iv: Block,
    register: u128,
}

impl Cfb1 {
    pub(super) fn new(aes: Aes, direction: Direction, iv: &Block) -> Self {
        Self { aes, direction, iv: *iv, register: u128::from_be_bytes(*iv) }
    }
}

impl Mode for Cfb1 {
    fn apply(&mut self, data: &mut [u8]) -> jeton_crypto::Result<()> {
        let mut keystream = Zeroizing::new([0; BLOCK]);
        for byte in data {
            let mut result = 0;
            for shift in (0..8).rev() {
                *keystream = self.register.to_be_bytes();
                self.aes.encrypt_block(&mut keystream);
                let given = *byte >> shift & 1;
                let bit = given ^ keystream[0] >> 7;
                result = result << 1 | bit;
                let ciphertext = if self.direction == Direction::Encrypt { bit } else { given };
                self.register = self.register << 1 | u128::from(ciphertext);
            }
            *byte = result;
        }
        Ok(())
    }

    fn start_over(&mut self) {
        self.register = u128::from_be_bytes(self.iv);
    }

    fn copied(&self) -> jeton_crypto::Result<Self> {
        Ok(self.clone())
    }
}

/// Builds ChaCha20: the variant of RFC 8439 for a nonce of 12 bytes, and the original for 8 bytes.
pub(super) fn chacha20(
    key: &[u8],
    nonce: &[u8],
    counter: u64,
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    require(key.len() == 32, Error::KeySizeRange)?;
    match nonce.len() {
        8 => streamed(ChaCha::<ChaCha20Legacy>::new(key, nonce, counter, u64::MAX)?, direction),
        12 => streamed(ChaCha::<ChaCha20>::new(key, nonce, counter, u32::MAX.into())?, direction),
        _ => Err(Error::MechanismParamInvalid),
    }
}

struct ChaCha<C> {
    cipher: C,
    key: Secret,
    nonce: Box<[u8]>,
    /// The position in bytes where the keystream of a message begins.
    first: u128,
    /// The number of keystream bytes that a message can use.
    most: u128,
    len: u128,
}

impl<C: KeyIvInit + StreamCipherSeek> ChaCha<C> {
    /// The length of a block in bytes.
    const BLOCK: u128 = 64;

    fn new(key: &[u8], nonce: &[u8], counter: u64, last: u64) -> Result<Self> {
        let blocks = u128::from(last.checked_sub(counter).ok_or(Error::MechanismParamInvalid)?);
        let mut cipher = C::new_from_slices(key, nonce).map_err(|_| Error::MechanismParamInvalid)?;
        let first = Self::BLOCK * u128::from(counter);
        cipher.try_seek(first).map_err(|_| Error::MechanismParamInvalid)?;
        // The library does not produce the very last block, because its counter would then wrap to
        // zero.
        let (key, nonce) = (key.into(), nonce.into());
        Ok(Self { cipher, key, nonce, first, most: Self::BLOCK * blocks, len: 0 })
    }
}

impl<C: KeyIvInit + StreamCipher + StreamCipherSeek + Send> Mode for ChaCha<C> {
    fn apply(&mut self, data: &mut [u8]) -> jeton_crypto::Result<()> {
        self.cipher.try_apply_keystream(data).map_err(|_| jeton_crypto::Error::Length)?;
        self.len += data.len() as u128;
        Ok(())
    }

    fn fits(&self, len: usize) -> jeton_crypto::Result<()> {
        if self.len + len as u128 > self.most { Err(jeton_crypto::Error::Length) } else { Ok(()) }
    }

    fn start_over(&mut self) {
        // `new` reached this position without an error.
        let _ = self.cipher.try_seek(self.first);
        self.len = 0;
    }

    fn copied(&self) -> jeton_crypto::Result<Self> {
        // The library's cipher cannot be copied, but a new one can seek to the same position.
        let mut cipher =
            C::new_from_slices(&self.key, &self.nonce).map_err(|_| jeton_crypto::Error::Library)?;
        cipher.try_seek(self.first + self.len).map_err(|_| jeton_crypto::Error::Library)?;
        Ok(Self { cipher, key: self.key.duplicate(), nonce: self.nonce.clone(), ..*self })
    }
}
