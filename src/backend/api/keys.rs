//! Key pairs of a backend, and what they do: sign, verify, encrypt, agree.

use std::sync::Arc;

use jeton_secret::Secret;

use super::algorithm::Curve;
use super::batch::Job;
use super::parts::{PairSpec, PrivateParts, PublicParts};
use super::scheme::{Encryption, Scheme};
use crate::error::{Error, Result};

/// Generation and loading of key pairs.
pub trait Keys: Sync {
    /// Generates a key pair. RSA is slow, so the caller must not hold a lock.
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)>;
    /// Parses a private key. Fails with `DataInvalid` if the parts are not a key, and with
    /// `KeySizeRange` if the size is not supported.
    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>>;
    /// Parses a public key. Fails with `DataInvalid` if a point is not on its curve.
    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>>;
    /// Returns a compressed, uncompressed or hybrid point in its uncompressed encoding. Fails with
    /// `DataInvalid` if it is not on the curve.
    fn uncompressed(&self, _curve: Curve, _point: &[u8]) -> Result<Vec<u8>> {
        Err(Error::MechanismInvalid)
    }
    /// Computes a power of public numbers modulo an odd number.
    fn power(&self, _base: &[u8], _exponent: &[u8], _modulus: &[u8]) -> Result<Secret> {
        Err(Error::MechanismInvalid)
    }
    /// Generates a safe prime p of this size in bits: (p - 1) / 2 is prime too. This is slow, so
    /// the caller must not hold a lock.
    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>>;
}

/// A parsed private key. Several sessions can use it at the same time.
pub trait PrivateKey: Send + Sync {
    /// Computes the public key.
    fn public(&self) -> Result<PublicParts>;
    /// Creates a signer for one session. Fails with `KeyTypeInconsistent` if the scheme does not
    /// fit the key. Fails with `KeySizeRange` if the key is too small for the scheme, such as
    /// RSA-1024 for PSS with SHA-512 and a salt of 64 bytes.
    fn signer(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Creates a signer that takes a use of the key before each signature. A stateful key signs
    /// with the one-time key of the number that `uses` returns, and has no other signer.
    fn counted_signer(self: Arc<Self>, scheme: &Scheme, uses: Arc<dyn Uses>) -> Result<Box<dyn Signer>> {
        Ok(Box::new(CountedSigner { signer: self.signer(scheme)?, uses }))
    }
    /// Decrypts with RSA. Writes the plaintext to the start of `out`, which is at least as long as
    /// the modulus, and returns its length. Fails with `EncryptedDataInvalid` if the decryption
    /// fails; a wrong padding of PKCS#1 v1.5 does not fail. Fails with `EncryptedDataLenRange` if
    /// the input is not as long as the modulus. Whether the time depends on secrets is up to the
    /// library.
    fn decrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Decrypts RSAES-PKCS1-v1_5 and returns a message of a length that `fits` accepts. If the
    /// padding is wrong or `fits` refuses the length, returns a synthetic message in the same time.
    /// Errors depend only on public facts. Fails with `EncryptedDataLenRange` if the input is not
    /// as long as the modulus. Fails with `EncryptedDataInvalid` if the input is not below the
    /// modulus, and with `KeySizeRange` if `fits` accepts no possible length.
    fn decrypt_pkcs1(&self, _input: &[u8], _fits: &dyn Fn(usize) -> bool) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Computes the shared secret with a peer's public key. For EC the peer's key is a compressed
    /// or uncompressed SEC 1 point, and the result an x-coordinate. For X25519 and X448 the peer's
    /// key is a u-coordinate, and the result the output of RFC 7748. For Diffie-Hellman both are
    /// integers, and the result is as long as the prime. Fails with `DataInvalid` if the peer's key
    /// is invalid or the result is the neutral element.
    fn agree(&self, _peer: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Returns whether the group of the key has no small subgroup besides that of order 2. In
    /// another group of Diffie-Hellman, a peer's value of a small order shows the private value
    /// modulo this order (Lim, Lee 1997). The first call of a key tests whether its prime is safe.
    fn is_group_safe(&self) -> Result<bool> {
        Ok(false)
    }
    /// Decapsulates an ML-KEM ciphertext to a secret of 32 bytes. A wrong ciphertext gives another
    /// secret (implicit rejection). Fails with `EncryptedDataLenRange` if the ciphertext has a
    /// wrong length.
    fn decapsulate(&self, _ciphertext: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// Counts the uses of a private key.
pub trait Uses: Send + Sync {
    /// Takes one use and returns its number. No other call gets this number, in no process, and not
    /// after a crash either. Fails with `KeyExhausted` if no use is left.
    fn take(&self) -> Result<u64>;
}

struct CountedSigner {
    signer: Box<dyn Signer>,
    uses: Arc<dyn Uses>,
}

impl Signer for CountedSigner {
    fn signature_len(&self) -> usize {
        self.signer.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.uses.take()?;
        self.signer.sign(input, out)
    }
}

/// A parsed public key. Several sessions can use it at the same time.
pub trait PublicKey: Send + Sync {
    /// Creates a verifier for one session. Fails with the errors of [`PrivateKey::signer`].
    fn verifier(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Encrypts with RSA. Writes the ciphertext, which is as long as the modulus, to the start of
    /// `out` and returns its length. Fails with `DataLenRange` if the input is too long. Fails with
    /// `DataInvalid` if a raw input is not below the modulus.
    fn encrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Returns the length of the RSA modulus in bytes, or 0 for other keys.
    fn encrypted_len(&self) -> usize {
        0
    }
    /// Encapsulates an ML-KEM secret. Returns the ciphertext and the secret of 32 bytes.
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// Signs any number of inputs with one key and one scheme. It keeps its scratch memory and library
/// contexts.
pub trait Signer: Send {
    /// Returns the length in bytes of every signature.
    fn signature_len(&self) -> usize;
    /// Signs `input` into `out[..signature_len]`. The [`Scheme`] says whether the input is a digest
    /// or a message. Fails with `DataLenRange` if the length of the input does not fit, and with
    /// `BufferTooSmall` if `out` is shorter than the signature.
    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()>;
    /// Returns the signature as a job that can be computed together with others; `None` if `sign`
    /// must compute it.
    fn job(&mut self, _input: &[u8]) -> Option<Job> {
        None
    }
    /// Like `sign`, for a signer whose `sign` fails with `Pending` and leaves the work for later.
    fn sign_now(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.sign(input, out)
    }
}

/// Verifies any number of signatures with one key and one scheme.
pub trait Verifier: Send {
    /// Checks a signature and fails with `SignatureInvalid` if it is wrong. Fails with
    /// `SignatureLenRange` if no signature has this length, and with `DataLenRange` if an input of
    /// this length cannot be signed. A raw RSA input that is not below the modulus fails with
    /// `SignatureInvalid`.
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()>;
}
