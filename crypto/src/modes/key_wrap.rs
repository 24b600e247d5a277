//! The key wraps KW, also with PKCS #7 padding, and KWP (SP 800-38F, RFC 3394, RFC 5649).

use jeton_secret::Secret;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::bytes::{output, xor};
use crate::error::{Error, Result, require};
use crate::library::{BlockCipher, Direction};
use crate::padding;

/// The length of a block in bytes.
const N: usize = 16;
/// The length of a semiblock, the unit of both wraps.
const SEMI: usize = 8;
/// The number of rounds over the message.
const ROUNDS: u64 = 6;

/// A key wrap. It processes whole messages.
pub trait KeyWrap {
    /// Returns what the wrap does with a message.
    fn direction(&self) -> Direction;
    /// Returns the largest length of the output for an input of this length. Fails with `Length` if
    /// no input has that length.
    fn output_len(&self, input: usize) -> Result<usize>;
    /// Writes the output to the start of `out` and returns its length. Fails with `Invalid` if a
    /// wrapped key is wrong.
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize>;
}

/// The key wrap KW.
pub struct Kw<B> {
    cipher: B,
    direction: Direction,
    iv: [u8; SEMI],
    padded: bool,
}

impl<B: BlockCipher<N>> Kw<B> {
    /// Builds the wrap, with PKCS #7 padding if `padded`. `cipher` must have the same direction.
    pub fn new(cipher: B, direction: Direction, iv: [u8; SEMI], padded: bool) -> Self {
        Self { cipher, direction, iv, padded }
    }
}

impl<B: BlockCipher<N>> KeyWrap for Kw<B> {
    fn direction(&self) -> Direction {
        self.direction
    }

    fn output_len(&self, input: usize) -> Result<usize> {
        let padding = if self.padded { SEMI - input % SEMI } else { 0 };
        match self.direction {
            Direction::Encrypt if (input + padding).is_multiple_of(SEMI) && input + padding >= 2 * SEMI => {
                Ok(input + padding + SEMI)
            }
            Direction::Decrypt if input.is_multiple_of(SEMI) && input >= 3 * SEMI => Ok(input - SEMI),
            _ => Err(Error::Length),
        }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        if self.direction == Direction::Encrypt {
            let out = output(out, len)?;
            out[..SEMI].copy_from_slice(&self.iv);
            out[SEMI..].fill((len - SEMI - input.len()) as u8);
            out[SEMI..][..input.len()].copy_from_slice(input);
            wrap(&mut self.cipher, out)?;
            return Ok(len);
        }
        let mut message = Secret::try_copy(input)?;
        unwrap(&mut self.cipher, &mut message)?;
        let (iv, message) = message.split_at(SEMI);
        let (good, len) = if self.padded { padding::pkcs7(message, SEMI) } else { (1.into(), len) };
        require(bool::from(iv.ct_eq(&self.iv) & good), Error::Invalid)?;
        output(out, len)?.copy_from_slice(&message[..len]);
        Ok(len)
    }
}

/// The key wrap KWP.
pub struct Kwp<B> {
    cipher: B,
    direction: Direction,
    iv: [u8; SEMI / 2],
}

impl<B: BlockCipher<N>> Kwp<B> {
    /// Builds the wrap. `cipher` must have the same direction.
    pub fn new(cipher: B, direction: Direction, iv: [u8; SEMI / 2]) -> Self {
        Self { cipher, direction, iv }
    }
}

impl<B: BlockCipher<N>> KeyWrap for Kwp<B> {
    fn direction(&self) -> Direction {
        self.direction
    }

    fn output_len(&self, input: usize) -> Result<usize> {
        // The length field has 32 bits.
        let fits = u32::try_from(input).is_ok();
        match self.direction {
            Direction::Encrypt if fits && input > 0 => Ok(input.next_multiple_of(SEMI) + SEMI),
            Direction::Decrypt if fits && input.is_multiple_of(SEMI) && input >= 2 * SEMI => Ok(input - SEMI),
            _ => Err(Error::Length),
        }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        if self.direction == Direction::Encrypt {
            let out = output(out, len)?;
            out[..SEMI / 2].copy_from_slice(&self.iv);
            out[SEMI / 2..SEMI].copy_from_slice(&(input.len() as u32).to_be_bytes());
            out[SEMI..].fill(0);
            out[SEMI..][..input.len()].copy_from_slice(input);
            match out.as_chunks_mut::<N>() {
                ([block], []) => self.cipher.process(std::slice::from_mut(block))?,
                _ => wrap(&mut self.cipher, out)?,
            }
            return Ok(len);
        }
        let mut message = Secret::try_copy(input)?;
        match message.as_chunks_mut::<N>() {
            ([block], []) => self.cipher.process(std::slice::from_mut(block))?,
            _ => unwrap(&mut self.cipher, &mut message)?,
        }
        let (good, len) = padding::kwp(&message, &self.iv);
        require(bool::from(good), Error::Invalid)?;
        output(out, len)?.copy_from_slice(&message[SEMI..][..len]);
        Ok(len)
    }
}

/// Applies the function W (SP 800-38F, algorithm 1) in place.
fn wrap(cipher: &mut impl BlockCipher<N>, message: &mut [u8]) -> Result<()> {
    let (first, rest) = message.split_at_mut(SEMI);
    let mut step = 0u64;
    let mut block = Zeroizing::new([0; N]);
    block[..SEMI].copy_from_slice(first);
    for _ in 0..ROUNDS {
        for semi in rest.chunks_exact_mut(SEMI) {
            step += 1;
            block[SEMI..].copy_from_slice(semi);
            cipher.process(std::slice::from_mut(&mut *block))?;
            semi.copy_from_slice(&block[SEMI..]);
            xor(&mut block[..SEMI], &step.to_be_bytes());
        }
    }
    first.copy_from_slice(&block[..SEMI]);
    Ok(())
}

/// Applies the inverse of W (SP 800-38F, algorithm 2) in place.
fn unwrap(cipher: &mut impl BlockCipher<N>, message: &mut [u8]) -> Result<()> {
    let (first, rest) = message.split_at_mut(SEMI);
    let mut step = ROUNDS * (rest.len() / SEMI) as u64;
    let mut block = Zeroizing::new([0; N]);
    block[..SEMI].copy_from_slice(first);
    for _ in 0..ROUNDS {
        for semi in rest.chunks_exact_mut(SEMI).rev() {
            xor(&mut block[..SEMI], &step.to_be_bytes());
            step -= 1;
            block[SEMI..].copy_from_slice(semi);
            cipher.process(std::slice::from_mut(&mut *block))?;
            semi.copy_from_slice(&block[SEMI..]);
        }
    }
    first.copy_from_slice(&block[..SEMI]);
    Ok(())
}
