//! Ciphers that collect the whole message before they write output. Authenticated ciphers must
//! verify the message first, and key wraps process it six times.

use jeton_secret::Secret;

use super::cipher::{Cipher, Renewal, SavedCipher};
use crate::error::{Error, Result};

/// Processes a whole message in one direction.
pub(in crate::backend) trait Whole: Send {
    /// Returns the largest length of the output for an input of this length. Fails if the mode does
    /// not support that length.
    fn output_len(&self, input: usize) -> Result<usize>;
    /// Writes the output to the start of `out` and returns its length.
    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize>;
    /// Sets another parameter. Returns false if that needs a new cipher.
    fn renew(&mut self, _new: Renewal<'_>) -> Result<bool> {
        Ok(false)
    }
}

pub(in crate::backend) fn collected(whole: impl Whole + 'static) -> Result<Box<dyn Cipher>> {
    Ok(Box::new(Collected { input: Secret::default(), whole }))
}

struct Collected<W> {
    input: Secret,
    whole: W,
}

impl<W: Whole> Cipher for Collected<W> {
    fn update_len(&self, _len: usize) -> usize {
        0
    }

    fn update(&mut self, input: &[u8], _out: &mut [u8]) -> Result<usize> {
        self.input.extend(input)?;
        Ok(0)
    }

    fn finish_len(&self) -> usize {
        self.whole.output_len(self.input.len()).unwrap_or(0)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let finished = self.whole.process(&self.input, out);
        if !matches!(finished, Err(Error::BufferTooSmall { .. })) {
            self.input.clear();
        }
        finished
    }

    fn reset(&mut self) -> Result<()> {
        self.input.clear();
        Ok(())
    }

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        // No data was collected before this call, so the message needs no copy.
        self.whole.process(input, out)
    }

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        self.whole.renew(new)
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Collected(Secret::try_copy(&self.input)?))
    }
}
