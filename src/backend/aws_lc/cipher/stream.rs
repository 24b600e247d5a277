//! Ciphers whose output has the length of the input at each step: CTR, OFB, CFB and ChaCha20.

use jeton_secret::Secret;

use super::super::ffi::{self, CipherCtx, Mode};
use super::BLOCK;
use crate::backend::api::{Cipher, Direction, SavedCipher, output};
use crate::error::{Error, Result, require};

pub(super) fn plain(
    mode: Mode,
    key: &[u8],
    iv: &[u8; BLOCK],
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    Ok(Box::new(Stream::new(mode, key, iv, direction, None)?))
}

pub(super) fn counter(key: &[u8], block: &[u8; BLOCK], bits: u32) -> Result<Box<dyn Cipher>> {
    require((1..=128).contains(&bits), Error::MechanismParamInvalid)?;
    // AWS-LC counts with all 128 bits. The result is the same, because a message that would wrap
    // the counter is refused.
    let last = u128::MAX >> (128 - bits);
    let after_first = last - (u128::from_be_bytes(*block) & last);
    let limit = after_first.saturating_add(1).checked_mul(BLOCK as u128);
    Ok(Box::new(Stream::new(Mode::Ctr, key, block, Direction::Encrypt, limit)?))
}

/// A stream mode of AES. `limit` is the length of the longest message in bytes.
struct Stream {
    context: CipherCtx,
    iv: [u8; BLOCK],
    limit: Option<u128>,
    taken: u128,
}

impl Stream {
    fn new(
        mode: Mode,
        key: &[u8],
        iv: &[u8; BLOCK],
        direction: Direction,
        limit: Option<u128>,
    ) -> Result<Self> {
        let mut stream = Self { context: CipherCtx::new(mode, key, direction)?, iv: *iv, limit, taken: 0 };
        stream.reset()?;
        Ok(stream)
    }
}

impl Cipher for Stream {
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let out = output(out, input.len())?;
        let taken = self.taken + input.len() as u128;
        require(self.limit.is_none_or(|limit| taken <= limit), Error::DataLenRange)?;
        self.context.update(input, out)?;
        self.taken = taken;
        Ok(input.len())
    }

    fn finish(&mut self, _out: &mut [u8]) -> Result<usize> {
        self.reset()?;
        Ok(0)
    }

    fn reset(&mut self) -> Result<()> {
        self.taken = 0;
        self.context.start(&self.iv)
    }

    fn save(&self) -> Result<SavedCipher> {
        let context = self.context.duplicate()?;
        Ok(SavedCipher::Running(Box::new(Self { context, ..*self })))
    }
}

const CHACHA_BLOCK: usize = 64;

pub(super) fn chacha20(key: &[u8], nonce: &[u8], counter: u64) -> Result<Box<dyn Cipher>> {
    require(key.len() == 32, Error::KeySizeRange)?;
    let (nonce, last): (&[u8], u64) = match nonce.len() {
        8 => (nonce, u64::MAX),
        12 if counter <= u64::from(u32::MAX) => (nonce, u64::from(u32::MAX)),
        _ => return Err(Error::MechanismParamInvalid),
    };
    let keystream = Secret::zeroed(CHACHA_BLOCK);
    Ok(Box::new(ChaCha {
        key: key.into(),
        nonce: nonce.into(),
        first: counter,
        next: u128::from(counter),
        last,
        keystream,
        left: 0,
    }))
}

/// Both forms of ChaCha20. They differ in word 13 of the state: it belongs to the counter or to the
/// nonce.
struct ChaCha {
    key: Secret,
    nonce: Box<[u8]>,
    first: u64,
    /// The counter of the next block. It is above [`last`](Self::last) if no block is left.
    next: u128,
    last: u64,
    /// The current block of keystream. Its last `left` bytes are not used yet.
    keystream: Secret,
    left: usize,
}

impl ChaCha {
    /// Processes blocks. Only the last block of the message may be incomplete.
    fn blocks(&mut self, mut input: &[u8], mut out: &mut [u8]) -> Result<()> {
        while !input.is_empty() {
            let counter = self.next as u64;
            // AWS-LC counts with 32 bits, which must not wrap.
            let until_wrap = (1 << 32) - (counter & 0xffff_ffff);
            let len =
                usize::try_from(until_wrap * CHACHA_BLOCK as u64).unwrap_or(usize::MAX).min(input.len());
            let (head, tail) = input.split_at(len);
            let (head_out, tail_out) = out.split_at_mut(len);
            let key = self.key.as_array().ok_or(Error::KeySizeRange)?;
            let mut nonce = [0; 12];
            nonce[..4].copy_from_slice(&((counter >> 32) as u32).to_le_bytes());
            nonce[12 - self.nonce.len()..].copy_from_slice(&self.nonce);
            ffi::chacha20(key, &nonce, counter as u32, head, head_out)?;
            self.next += len.div_ceil(CHACHA_BLOCK) as u128;
            (input, out) = (tail, tail_out);
        }
        Ok(())
    }
}

impl Cipher for ChaCha {
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let out = output(out, input.len())?;
        let of_old = self.left.min(input.len());
        let new_blocks = (input.len() - of_old).div_ceil(CHACHA_BLOCK) as u128;
        require(self.next + new_blocks <= u128::from(self.last) + 1, Error::DataLenRange)?;
        let (old, new) = input.split_at(of_old);
        let (old_out, new_out) = out.split_at_mut(of_old);
        let keystream = &self.keystream[CHACHA_BLOCK - self.left..];
        for ((out, byte), key) in old_out.iter_mut().zip(old).zip(keystream) {
            *out = byte ^ key;
        }
        self.left -= of_old;

        let whole = new.len() / CHACHA_BLOCK * CHACHA_BLOCK;
        self.blocks(&new[..whole], &mut new_out[..whole])?;
        let rest = &new[whole..];
        if !rest.is_empty() {
            let mut keystream = std::mem::take(&mut self.keystream);
            let made = self.blocks(&[0; CHACHA_BLOCK], &mut keystream);
            self.keystream = keystream;
            made?;
            for ((out, byte), key) in new_out[whole..].iter_mut().zip(rest).zip(self.keystream.iter()) {
                *out = byte ^ key;
            }
            self.left = CHACHA_BLOCK - rest.len();
        }
        Ok(input.len())
    }

    fn finish(&mut self, _out: &mut [u8]) -> Result<usize> {
        self.reset()?;
        Ok(0)
    }

    fn reset(&mut self) -> Result<()> {
        self.next = u128::from(self.first);
        self.left = 0;
        Ok(())
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Running(Box::new(Self {
            key: self.key.duplicate(),
            nonce: self.nonce.clone(),
            keystream: self.keystream.duplicate(),
            ..*self
        })))
    }
}
