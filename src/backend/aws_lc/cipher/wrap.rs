//! Key wraps of SP 800-38F (RFC 3394, RFC 5649) on AES blocks. AWS-LC's own KWP accepts no initial
//! value, and a wrap with another one could not be unwrapped.

use super::super::ffi::{self, CipherCtx, Mode};
use super::super::prefix;
use super::length_error;
use super::whole::{Whole, collected};
use crate::backend::{Cipher, Direction, padding};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// RFC 3394, 2.2.3.1.
const KW_IV: [u8; HALF] = [0xa6; HALF];
/// RFC 5649, 3.
const KWP_IV: [u8; 4] = [0xa6, 0x59, 0x59, 0xa6];
/// The unit of a wrap: half a block of AES.
const HALF: usize = 8;

pub(super) fn kw(key: &[u8], iv: Option<[u8; HALF]>, direction: Direction) -> Result<Box<dyn Cipher>> {
    let aes = aes(key, direction)?;
    collected(Kw { aes, iv: iv.unwrap_or(KW_IV), direction })
}

pub(super) fn kwp(key: &[u8], iv: Option<[u8; 4]>, direction: Direction) -> Result<Box<dyn Cipher>> {
    let aes = aes(key, direction)?;
    collected(Kwp { aes, iv: iv.unwrap_or(KWP_IV), direction })
}

fn aes(key: &[u8], direction: Direction) -> Result<CipherCtx> {
    CipherCtx::new(Mode::Ecb, key, direction == Direction::Encrypt)
}

struct Kw {
    aes: CipherCtx,
    iv: [u8; HALF],
    direction: Direction,
}

impl Whole for Kw {
    fn output_len(&self, input: usize) -> Result<usize> {
        match self.direction {
            Direction::Encrypt if input.is_multiple_of(HALF) && input >= 2 * HALF => Ok(input + HALF),
            Direction::Decrypt if input.is_multiple_of(HALF) && input >= 3 * HALF => Ok(input - HALF),
            direction => Err(length_error(direction)),
        }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = prefix(out, len)?;
        if self.direction == Direction::Encrypt {
            out[..HALF].copy_from_slice(&self.iv);
            out[HALF..].copy_from_slice(input);
            wrap(&mut self.aes, out)?;
            return Ok(len);
        }
        let mut halves = Secret::try_copy(input)?;
        unwrap(&mut self.aes, &mut halves)?;
        let (iv, plain) = halves.split_at(HALF);
        if !ffi::equal(iv, &self.iv) {
            return Err(Error::EncryptedDataInvalid);
        }
        out.copy_from_slice(plain);
        Ok(len)
    }
}

struct Kwp {
    aes: CipherCtx,
    iv: [u8; 4],
    direction: Direction,
}

impl Whole for Kwp {
    fn output_len(&self, input: usize) -> Result<usize> {
        match self.direction {
            Direction::Encrypt if (1..=u32::MAX as usize).contains(&input) => {
                Ok(input.next_multiple_of(HALF) + HALF)
            }
            Direction::Decrypt if input.is_multiple_of(HALF) && input >= 2 * HALF => Ok(input - HALF),
            direction => Err(length_error(direction)),
        }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        if self.direction == Direction::Encrypt {
            let out = prefix(out, len)?;
            out[..4].copy_from_slice(&self.iv);
            out[4..HALF].copy_from_slice(&(input.len() as u32).to_be_bytes());
            out[HALF..].fill(0);
            out[HALF..][..input.len()].copy_from_slice(input);
            wrap(&mut self.aes, out)?;
            return Ok(len);
        }
        let mut halves = Secret::try_copy(input)?;
        unwrap(&mut self.aes, &mut halves)?;
        let (good, len) = padding::kwp(&halves, &self.iv);
        if !bool::from(good) {
            return Err(Error::EncryptedDataInvalid);
        }
        prefix(out, len)?.copy_from_slice(&halves[HALF..][..len]);
        Ok(len)
    }
}

/// Applies the function W (SP 800-38F, algorithm 1) in place. Two halves form one block.
fn wrap(aes: &mut CipherCtx, halves: &mut [u8]) -> Result<()> {
    let mut block = Secret::zeroed(2 * HALF);
    if halves.len() == 2 * HALF {
        block.copy_from_slice(halves);
        return aes.update(&block, halves);
    }
    let (first, rest) = halves.split_at_mut(HALF);
    let mut step = 0u64;
    let mut out = Secret::zeroed(2 * HALF);
    for _ in 0..6 {
        for half in rest.chunks_mut(HALF) {
            step += 1;
            block[..HALF].copy_from_slice(first);
            block[HALF..].copy_from_slice(half);
            aes.update(&block, &mut out)?;
            count(&mut out, step);
            first.copy_from_slice(&out[..HALF]);
            half.copy_from_slice(&out[HALF..]);
        }
    }
    Ok(())
}

/// Applies the inverse of W (SP 800-38F, algorithm 2) in place.
fn unwrap(aes: &mut CipherCtx, halves: &mut [u8]) -> Result<()> {
    let mut block = Secret::zeroed(2 * HALF);
    if halves.len() == 2 * HALF {
        block.copy_from_slice(halves);
        return aes.update(&block, halves);
    }
    let (first, rest) = halves.split_at_mut(HALF);
    let mut step = 6 * (rest.len() / HALF) as u64;
    let mut out = Secret::zeroed(2 * HALF);
    for _ in 0..6 {
        for half in rest.chunks_mut(HALF).rev() {
            block[..HALF].copy_from_slice(first);
            block[HALF..].copy_from_slice(half);
            count(&mut block, step);
            aes.update(&block, &mut out)?;
            first.copy_from_slice(&out[..HALF]);
            half.copy_from_slice(&out[HALF..]);
            step -= 1;
        }
    }
    Ok(())
}

/// XORs the number of the step into the first half of a block.
fn count(block: &mut [u8], step: u64) {
    for (byte, step) in block.iter_mut().zip(step.to_be_bytes()) {
        *byte ^= step;
    }
}
