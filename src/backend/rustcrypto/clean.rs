//! Ciphers, MACs and keys that leave no part of a key on the stack.
//!
//! The crates wipe their keys, but not the copies that moves and computations leave. On processors
//! that work on many blocks at once, each call of the `aes` crate copies the round keys, which
//! begin with the key. So the stack is wiped after each call of a method here, not after each
//! block.
//!
//! Computations with asymmetric keys need more stack than a thread may have. They run on separate
//! stacks ([`Stacks`]).

use std::sync::Arc;

use jeton_secret::{CIPHER_DEPTH, Secret, Stacks, wipe_stack};

use crate::backend::api::{
    Aead, Cipher, Encryption, Mac, PrivateKey, PublicKey, PublicParts, Renewal, SavedCipher, Scheme, Signer,
    Verifier,
};
use crate::error::Result;

/// The stacks for elliptic curves, RSA and Diffie-Hellman. These computations need less than
/// half of this size. This is also true without optimisation, and if the optimiser puts all code
/// and curve tables into one function. The test `stacks` in `tests/crash/limits.rs` uses every type
/// of key.
pub(super) static SMALL: Stacks = Stacks::new(512 << 10);
/// The stacks for the other algorithms: the matrices of ML-DSA and ML-KEM are on the stack.
pub(super) static LARGE: Stacks = Stacks::new(2 << 20);

/// A cipher or MAC that wipes the stack after each call that computes with the key.
pub(super) struct Clean<T: ?Sized>(Box<T>);

impl<T: ?Sized> Clean<T> {
    pub(super) fn new(inner: Box<T>) -> Self {
        // Wipes what the construction left.
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

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        self.0.renew(new)
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

/// A private or public key that computes on a separate stack.
pub(super) struct CleanKey<T: ?Sized> {
    inner: Arc<T>,
    stacks: &'static Stacks,
}

impl<T: ?Sized> CleanKey<T> {
    pub(super) fn new(inner: Arc<T>, stacks: &'static Stacks) -> Self {
        Self { inner, stacks }
    }
}

impl PrivateKey for CleanKey<dyn PrivateKey> {
    fn public(&self) -> Result<PublicParts> {
        self.stacks.run(|| self.inner.public())
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let stacks = self.stacks;
        let inner = stacks.run(|| Arc::clone(&self.inner).signer(scheme))?;
        Ok(Box::new(CleanSigner { inner, stacks }))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.stacks.run(|| self.inner.decrypt(scheme, input, out))
    }

    fn decrypt_pkcs1(&self, input: &[u8], fits: &dyn Fn(usize) -> bool) -> Result<Secret> {
        self.stacks.run(|| self.inner.decrypt_pkcs1(input, fits))
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        self.stacks.run(|| self.inner.agree(peer))
    }

    fn is_group_safe(&self) -> Result<bool> {
        self.stacks.run(|| self.inner.is_group_safe())
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        self.stacks.run(|| self.inner.decapsulate(ciphertext))
    }
}

impl PublicKey for CleanKey<dyn PublicKey> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let stacks = self.stacks;
        let inner = stacks.run(|| Arc::clone(&self.inner).verifier(scheme))?;
        Ok(Box::new(CleanVerifier { inner, stacks }))
    }

    fn encrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.stacks.run(|| self.inner.encrypt(scheme, input, out))
    }

    fn encrypted_len(&self) -> usize {
        self.inner.encrypted_len()
    }

    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        self.stacks.run(|| self.inner.encapsulate())
    }
}

struct CleanSigner {
    inner: Box<dyn Signer>,
    stacks: &'static Stacks,
}

impl Signer for CleanSigner {
    fn signature_len(&self) -> usize {
        self.inner.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.stacks.run(|| self.inner.sign(input, out))
    }
}

struct CleanVerifier {
    inner: Box<dyn Verifier>,
    stacks: &'static Stacks,
}

impl Verifier for CleanVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        self.stacks.run(|| self.inner.verify(input, signature))
    }
}

/// Runs `work` in a separate frame. If the optimiser inlined all algorithms into the function that
/// chooses one, that function would have one frame with the stack of all algorithms.
#[inline(never)]
pub(super) fn alone<R>(work: impl FnOnce() -> R) -> R {
    work()
}
