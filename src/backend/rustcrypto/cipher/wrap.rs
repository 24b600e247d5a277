//! The key wraps KW and KWP (SP 800-38F).

use subtle::ConstantTimeEq;

use super::whole::Whole;
use crate::backend::rustcrypto::aes::{Aes, BLOCK, Block};
use crate::backend::rustcrypto::output;
use crate::backend::{Direction, padding};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// The length of a semiblock, the unit of both wraps.
const SEMI: usize = 8;
/// The number of rounds over the message.
const ROUNDS: u64 = 6;

pub(super) struct Kw {
    aes: Aes,
    iv: [u8; SEMI],
}

impl Kw {
    pub(super) fn new(aes: Aes, iv: Option<[u8; SEMI]>) -> Self {
        Self { aes, iv: iv.unwrap_or([0xa6; SEMI]) }
    }
}

impl Whole for Kw {
    fn len(&self, direction: Direction, input: usize) -> usize {
        match direction {
            Direction::Encrypt => input + SEMI,
            Direction::Decrypt => input.saturating_sub(SEMI),
        }
    }

    fn encrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        if input.len() < 2 * SEMI || !input.len().is_multiple_of(SEMI) {
            return Err(Error::DataLenRange);
        }
        let out = output(out, input.len() + SEMI)?;
        out[..SEMI].copy_from_slice(&self.iv);
        out[SEMI..].copy_from_slice(input);
        wrap(&self.aes, out);
        Ok(out.len())
    }

    fn decrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        if input.len() < 3 * SEMI || !input.len().is_multiple_of(SEMI) {
            return Err(Error::EncryptedDataLenRange);
        }
        let out = output(out, input.len() - SEMI)?;
        let mut message = Secret::try_copy(input)?;
        unwrap(&self.aes, &mut message);
        if !bool::from(message[..SEMI].ct_eq(&self.iv)) {
            return Err(Error::EncryptedDataInvalid);
        }
        out.copy_from_slice(&message[SEMI..]);
        Ok(out.len())
    }
}

pub(super) struct Kwp {
    aes: Aes,
    iv: [u8; SEMI / 2],
}

impl Kwp {
    pub(super) fn new(aes: Aes, iv: Option<[u8; SEMI / 2]>) -> Self {
        Self { aes, iv: iv.unwrap_or([0xa6, 0x59, 0x59, 0xa6]) }
    }
}

impl Whole for Kwp {
    fn len(&self, direction: Direction, input: usize) -> usize {
        match direction {
            Direction::Encrypt => input.next_multiple_of(SEMI) + SEMI,
            Direction::Decrypt => input.saturating_sub(SEMI),
        }
    }

    fn encrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = u32::try_from(input.len()).map_err(|_| Error::DataLenRange)?;
        if len == 0 {
            return Err(Error::DataLenRange);
        }
        let out = output(out, input.len().next_multiple_of(SEMI) + SEMI)?;
        out.fill(0);
        out[..SEMI / 2].copy_from_slice(&self.iv);
        out[SEMI / 2..SEMI].copy_from_slice(&len.to_be_bytes());
        out[SEMI..][..input.len()].copy_from_slice(input);
        match out.as_chunks_mut::<BLOCK>() {
            ([block], []) => self.aes.encrypt_block(block),
            _ => wrap(&self.aes, out),
        }
        Ok(out.len())
    }

    fn decrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        // The length field cannot express longer messages.
        if input.len() < 2 * SEMI || !input.len().is_multiple_of(SEMI) || u32::try_from(input.len()).is_err()
        {
            return Err(Error::EncryptedDataLenRange);
        }
        let mut message = Secret::try_copy(input)?;
        match message.as_chunks_mut::<BLOCK>() {
            ([block], []) => self.aes.decrypt_block(block),
            _ => unwrap(&self.aes, &mut message),
        }
        let (good, len) = padding::kwp(&message, &self.iv);
        if !bool::from(good) {
            return Err(Error::EncryptedDataInvalid);
        }
        output(out, len)?.copy_from_slice(&message[SEMI..][..len]);
        Ok(len)
    }
}

/// Applies the function W (SP 800-38F, algorithm 1) in place.
fn wrap(aes: &Aes, message: &mut [u8]) {
    let (first, rest) = message.split_at_mut(SEMI);
    let mut step = 0u64;
    let mut block: Block = [0; BLOCK];
    block[..SEMI].copy_from_slice(first);
    for _ in 0..ROUNDS {
        for semi in rest.chunks_exact_mut(SEMI) {
            step += 1;
            block[SEMI..].copy_from_slice(semi);
            aes.encrypt_block(&mut block);
            semi.copy_from_slice(&block[SEMI..]);
            count(&mut block, step);
        }
    }
    first.copy_from_slice(&block[..SEMI]);
}

/// Applies the inverse of W (SP 800-38F, algorithm 2) in place.
fn unwrap(aes: &Aes, message: &mut [u8]) {
    let (first, rest) = message.split_at_mut(SEMI);
    let mut step = ROUNDS * (rest.len() / SEMI) as u64;
    let mut block = zeroize::Zeroizing::new([0; BLOCK]);
    block[..SEMI].copy_from_slice(first);
    for _ in 0..ROUNDS {
        for semi in rest.chunks_exact_mut(SEMI).rev() {
            count(&mut block, step);
            step -= 1;
            block[SEMI..].copy_from_slice(semi);
            aes.decrypt_block(&mut block);
            semi.copy_from_slice(&block[SEMI..]);
        }
    }
    first.copy_from_slice(&block[..SEMI]);
}

fn count(block: &mut Block, step: u64) {
    crate::backend::rustcrypto::aes::xor(&mut block[..SEMI], &step.to_be_bytes());
}
