//! Ciphers, codes and private keys that leave nothing of a key behind on the stack.
//!
//! The crates wipe their keys, and not the copies that are made where one is moved or its numbers are computed with. Where
//! the processor works on many blocks at a time the `aes` crate copies the round keys, the first of which are the key, with
//! each call. So the stack is wiped after each call of ours, not after each block.

use std::sync::Arc;

use crate::backend::{Aead, Cipher, Encryption, Mac, PrivateKey, PublicParts, SavedCipher, Scheme, Signer};
use crate::error::Result;
use crate::secret::{CIPHER_DEPTH, Secret, wipe_stack};

/// How deep private keys go, but for those below; ciphers and codes go to [`CIPHER_DEPTH`].
pub(super) const KEY: usize = 64 << 10;
/// Those of elliptic curves: 176 KiB where everything is optimised into one function, tables of the curves too.
pub(super) const CURVE_KEY: usize = 192 << 10;

/// Wipes the stack after each call that computes with the key.
pub(super) struct Clean<T: ?Sized>(Box<T>);

impl<T: ?Sized> Clean<T> {
    pub(super) fn new(inner: Box<T>) -> Self {
        // What has been computed while it was made.
        wipe_stack::<CIPHER_DEPTH>();
        Self(inner)
    }

    fn run<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        let outcome = work(&mut self.0);
        wipe_stack::<CIPHER_DEPTH>();
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

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.run(|cipher| cipher.whole(input, out))
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

/// A private key that wipes so much of the stack after each call.
pub(super) struct CleanKey<const DEPTH: usize>(pub(super) Arc<dyn PrivateKey>);

impl<const DEPTH: usize> PrivateKey for CleanKey<DEPTH> {
    fn public(&self) -> Result<PublicParts> {
        clean::<DEPTH, _>(|| self.0.public())
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let signer = clean::<DEPTH, _>(|| Arc::clone(&self.0).signer(scheme))?;
        Ok(Box::new(CleanSigner::<DEPTH>(signer)))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        clean::<DEPTH, _>(|| self.0.decrypt(scheme, input, out))
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        clean::<DEPTH, _>(|| self.0.agree(peer))
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        clean::<DEPTH, _>(|| self.0.decapsulate(ciphertext))
    }
}

struct CleanSigner<const DEPTH: usize>(Box<dyn Signer>);

impl<const DEPTH: usize> Signer for CleanSigner<DEPTH> {
    fn signature_len(&self) -> usize {
        self.0.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        clean::<DEPTH, _>(|| self.0.sign(input, out))
    }
}

/// Does something with a private key, below which nothing of it stays.
pub(super) fn clean<const DEPTH: usize, R>(work: impl FnOnce() -> R) -> R {
    let outcome = work();
    wipe_stack::<DEPTH>();
    outcome
}

/// Works in a frame of its own. Where all algorithms are optimised into the function that chooses one, its frame is as large
/// as all of theirs, and what one leaves may lie deeper than is wiped.
#[inline(never)]
pub(super) fn alone<R>(work: impl FnOnce() -> R) -> R {
    work()
}
