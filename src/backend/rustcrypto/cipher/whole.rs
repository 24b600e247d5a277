//! Ciphers that collect the whole message before they write output. Authenticated ciphers must
//! verify it first, and key wraps pass over it six times.

use crate::backend::{Cipher, Direction, SavedCipher};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Processes a whole message.
pub(super) trait Whole: Send {
    /// Returns the length of the output. It is exact unless padding is removed; then it is the
    /// largest possible length.
    fn len(&self, direction: Direction, input: usize) -> usize;
    fn encrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize>;
    fn decrypt(&self, input: &[u8], out: &mut [u8]) -> Result<usize>;
}

/// Collects the message for a [`Whole`].
pub(super) struct Collected<W> {
    cipher: W,
    direction: Direction,
    message: Secret,
}

impl<W: Whole> Collected<W> {
    pub(super) fn new(cipher: W, direction: Direction) -> Self {
        Self { cipher, direction, message: Secret::default() }
    }
}

impl<W: Whole> Cipher for Collected<W> {
    fn update_len(&self, _len: usize) -> usize {
        0
    }

    fn update(&mut self, input: &[u8], _out: &mut [u8]) -> Result<usize> {
        self.message.extend(input)?;
        Ok(0)
    }

    fn finish_len(&self) -> usize {
        self.cipher.len(self.direction, self.message.len())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let outcome = match self.direction {
            Direction::Encrypt => self.cipher.encrypt(&self.message, out),
            Direction::Decrypt => self.cipher.decrypt(&self.message, out),
        };
        if !matches!(outcome, Err(Error::BufferTooSmall { .. })) {
            self.message.clear();
        }
        outcome
    }

    fn reset(&mut self) -> Result<()> {
        self.message.clear();
        Ok(())
    }

    fn save(&self) -> Result<SavedCipher> {
        Secret::try_copy(&self.message).map(SavedCipher::Collected)
    }
}
