//! Ciphers and codes that leave no round keys behind.
//!
//! Where the processor works on many blocks at a time the `aes` crate copies the round keys, the first of which are the
//! key, into a frame of the stack with each call. They are wiped once a call of ours, not once a block.

use crate::backend::{Aead, Cipher, Mac, SavedCipher};
use crate::error::Result;
use crate::secret::wipe_stack;

/// Wipes the stack after each call that runs the block cipher.
pub(super) struct Clean<T: ?Sized>(Box<T>);

impl<T: ?Sized> Clean<T> {
    pub(super) fn new(inner: Box<T>) -> Self {
        // What has been computed while it was made.
        wipe_stack();
        Self(inner)
    }

    fn run<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let outcome = work(&mut self.0);
        wipe_stack();
        outcome
    }
}

impl Cipher for Clean<dyn Cipher> {
    fn update_len(&self, len: usize) -> usize {
        self.0.update_len(len)
    }

    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.run(|cipher| cipher.update(input, out))
    }

    fn finish_len(&self) -> usize {
        self.0.finish_len()
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        self.run(|cipher| cipher.finish(out))
    }

    fn reset(&mut self) -> Result<()> {
        self.run(Cipher::reset)
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(match self.0.save()? {
            SavedCipher::Running(cipher) => SavedCipher::Running(Box::new(Self::new(cipher))),
            collected @ SavedCipher::Collected(_) => collected,
        })
    }
}

impl Mac for Clean<dyn Mac> {
    fn mac_len(&self) -> usize {
        self.0.mac_len()
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.run(|mac| mac.update(data))
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.run(|mac| mac.finish(out))
    }

    fn reset(&mut self) -> Result<()> {
        self.run(Mac::reset)
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self::new(self.0.duplicate()?)))
    }
}

impl Aead for Clean<dyn Aead> {
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        self.run(|cipher| cipher.seal(nonce, aad, input, out, tag))
    }

    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        self.run(|cipher| cipher.open(nonce, aad, input, tag, out))
    }
}
