//! What a crypto library gives to the token: random bytes, digests, keys, signers and verifiers, in our own words.
//!
//! A backend knows no PKCS#11. It is a constant [`Provider`]; `aws_lc/` and `rustcrypto/` are mirror images with the
//! same file names. Keys cross this line as [parts](PrivateParts) once, when they are first used, and stay parsed.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::secret::Secret;

mod algorithm;
#[cfg(feature = "aws-lc")]
pub mod aws_lc;
#[cfg_attr(
    not(any(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]
pub mod des3;
#[cfg_attr(
    not(any(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]
mod dh;
#[cfg(feature = "null-backend")]
pub mod null;
mod parts;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;
mod symmetric;

pub use algorithm::{Curve, Hash, MlDsa, MlKem, SlhDsa};
pub use parts::{PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate};
pub use symmetric::{
    Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Direction, Mac, MacScheme, Macs, Nonce, SavedCipher,
};

/// A backend: one constant per library.
pub struct Provider {
    /// The name that the configuration uses: `aws-lc`, `rustcrypto`.
    pub name: &'static str,
    /// Random bytes.
    pub random: &'static dyn Random,
    /// Message digests.
    pub digest: &'static dyn Digest,
    /// Key pairs: generation and loading.
    pub keys: &'static dyn Keys,
    /// Symmetric ciphers.
    pub ciphers: &'static dyn Ciphers,
    /// Message authentication codes.
    pub macs: &'static dyn Macs,
}

impl Provider {
    /// The backends compiled into this build, the default first.
    pub const ALL: &'static [&'static Provider] = &[
        #[cfg(feature = "aws-lc")]
        &aws_lc::PROVIDER,
        #[cfg(feature = "rustcrypto")]
        &rustcrypto::PROVIDER,
        #[cfg(feature = "null-backend")]
        &null::PROVIDER,
    ];

    /// The backend of that name, if this build has it.
    pub fn named(name: &str) -> Option<&'static Provider> {
        Self::ALL.iter().copied().find(|provider| provider.name == name)
    }

    /// The code of a message in parts.
    pub fn code(&self, scheme: &MacScheme, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
        let mut mac = self.macs.mac(scheme, key)?;
        parts.iter().try_for_each(|part| mac.update(part))?;
        let mut out = Secret::zeroed(mac.mac_len());
        mac.finish(&mut out)?;
        Ok(out)
    }
}

const _: () = assert!(!Provider::ALL.is_empty(), "enable the feature aws-lc, rustcrypto or both");

/// A generator fit for keys and nonces, safe across threads and `fork`.
pub trait Random: Sync {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
}

/// Message digests (FIPS 180-4, FIPS 202).
pub trait Digest: Sync {
    /// The digest of `data` into `out`, which is `hash.len()` bytes long.
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()>;
    /// A digest over several parts.
    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>>;
}

/// A digest in the making.
pub trait Hasher: Send {
    /// Takes more input.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the digest into `out` (`hash.len()` bytes) and starts over.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Forgets the input so far and starts over.
    fn reset(&mut self) -> Result<()>;
    /// A second digest that goes on from here; `StateUnsaveable` where the library makes none.
    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Err(Error::StateUnsaveable)
    }
}

/// Key pairs.
pub trait Keys: Sync {
    /// Makes a key pair. Slow for RSA: no lock may be held by the caller.
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)>;
    /// Parses a private key once. `DataInvalid` where the parts are no key; `KeySizeRange` where its size is not
    /// supported.
    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>>;
    /// Parses a public key once; a point off its curve is `DataInvalid`.
    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>>;
    /// A prime of so many bits, the half of which less one is prime too. Slow: no lock may be held by the caller.
    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>>;
    /// Sees that a prime and a base may be those of a Diffie-Hellman group; the errors of [`PairSpec::Dh`].
    fn check_group(&self, prime: &[u8], base: &[u8]) -> Result<()> {
        dh::check_group(prime, base)
    }
}

/// A parsed private key, shared by the sessions that use it.
pub trait PrivateKey: Send + Sync {
    /// The public half, computed from the private one (`DataInvalid` where the parts do not suffice, as for RSA
    /// without its public exponent).
    fn public(&self) -> Result<PublicParts>;
    /// A signer owned by one session. `KeyTypeInconsistent` where key and scheme do not fit; `KeySizeRange` where
    /// the key is too small for the scheme (RSA-512 with SHA-512).
    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>>;
    /// Decrypts with RSA; the plaintext into the front of `out` (at least the modulus' length), how long it is.
    /// `EncryptedDataInvalid` where it does not decrypt, `EncryptedDataLenRange` where the length is not the
    /// modulus'. Constant time as far as the library goes.
    fn decrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// The shared secret with a peer's public key in its raw form (an uncompressed or compressed SEC 1 point, a
    /// u-coordinate, or an integer): the x-coordinate, RFC 7748's output, or an integer as long as the prime;
    /// `DataInvalid` where the peer's key is none or the result is the neutral element.
    fn agree(&self, _peer: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
    /// ML-KEM decapsulation: 32 bytes, by implicit rejection for a wrong ciphertext; `EncryptedDataLenRange` where
    /// its length is wrong.
    fn decapsulate(&self, _ciphertext: &[u8]) -> Result<Secret> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// A parsed public key, shared by the sessions that use it.
pub trait PublicKey: Send + Sync {
    /// A verifier owned by one session; the errors of [`PrivateKey::signer`].
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>>;
    /// Encrypts with RSA; the ciphertext, of the modulus' length, into the front of `out`. `DataLenRange` where the
    /// input is too long, `DataInvalid` where a raw one is not below the modulus.
    fn encrypt(&self, _scheme: &Encryption, _input: &[u8], _out: &mut [u8]) -> Result<usize> {
        Err(Error::KeyTypeInconsistent)
    }
    /// Length of an RSA modulus in bytes, 0 for other keys.
    fn encrypted_len(&self) -> usize {
        0
    }
    /// ML-KEM encapsulation: the ciphertext and the 32 bytes of the secret.
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// How an RSA key encrypts.
#[derive(Clone, PartialEq, Eq)]
pub enum Encryption {
    /// RFC 8017 RSAEP on the input as an integer, padded with zeros on the left.
    Raw,
    /// RSAES-PKCS1-v1_5. A wrong padding is `EncryptedDataInvalid`.
    Pkcs1,
    /// RSAES-OAEP.
    Oaep {
        /// The hash of the label.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// The label.
        label: Box<[u8]>,
    },
}

/// Signs, again and again, with one key and one scheme; keeps its scratch memory and library contexts.
pub trait Signer: Send {
    /// The length in bytes of every signature that it makes.
    fn signature_len(&self) -> usize;
    /// Signs `input` (a digest or a message, as the [`Scheme`] says) into `out[..signature_len]`.
    /// `DataLenRange` where the input's length does not fit, `BufferTooSmall` where `out` is shorter; nothing is
    /// allocated on this path by us.
    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()>;
}

/// Verifies, again and again, with one key and one scheme.
pub trait Verifier: Send {
    /// The length in bytes of a signature of this key.
    fn signature_len(&self) -> usize;
    /// `Ok` for a good signature, `SignatureInvalid` for a wrong one, `SignatureLenRange` for one of a length that
    /// none has, `DataLenRange` for an input that no signature can be of (a raw RSA input that is not below the
    /// modulus is `SignatureInvalid`).
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()>;
}

/// How a key signs. Hashing a message first is the caller's work where the scheme takes a digest.
#[derive(Clone, PartialEq, Eq)]
pub enum Scheme {
    /// RFC 8017 RSASP1 on the input as an integer; a shorter input is padded with zeros on the left, and one that
    /// is not below the modulus is `DataInvalid`.
    RsaRaw,
    /// RSASSA-PKCS1-v1_5. With a hash the input is its digest and the DigestInfo is made here; without, the input
    /// is padded as it is (at most the modulus less 11 bytes).
    RsaPkcs1 {
        /// The hash of the DigestInfo.
        hash: Option<Hash>,
    },
    /// RSASSA-PSS; the input is the digest of `hash`.
    RsaPss {
        /// The hash that made the input.
        hash: Hash,
        /// The hash of the mask generation function MGF1.
        mgf: Hash,
        /// Length of the salt in bytes.
        salt_len: usize,
    },
    /// ECDSA; the input is a digest of any length, cut to the curve's order on the left (FIPS 186-5, 6.4); the
    /// signature is r || s, each of the order's length. Verification also takes r || s of equal, shorter halves
    /// (common leading zeros removed).
    Ecdsa,
    /// Ed25519 (RFC 8032, pure); the input is the message.
    Ed25519,
    /// Ed25519ctx or Ed25519ph (RFC 8032); the input is the message, or its SHA-512 digest where `prehash`.
    Ed25519Context {
        /// Ed25519ph.
        prehash: bool,
        /// At most 255 bytes; Ed25519ctx wants at least one (`MechanismParamInvalid`).
        context: Box<[u8]>,
    },
    /// Ed448 or Ed448ph (RFC 8032); the input is the message, or its SHAKE256 digest of 64 bytes where `prehash`.
    Ed448 {
        /// Ed448ph.
        prehash: bool,
        /// At most 255 bytes.
        context: Box<[u8]>,
    },
    /// HashML-DSA (FIPS 204, 5.4); the input is the digest of `hash`.
    HashMlDsa {
        /// The hash that made the input.
        hash: Hash,
        /// At most 255 bytes.
        context: Box<[u8]>,
        /// Whether randomness enters a signature.
        deterministic: bool,
    },
    /// SLH-DSA (FIPS 205): pure, the input is the message; with a hash HashSLH-DSA, the input is its digest.
    SlhDsa {
        /// The hash that made the input.
        hash: Option<Hash>,
        /// At most 255 bytes.
        context: Box<[u8]>,
        /// Whether randomness enters a signature.
        deterministic: bool,
    },
    /// ML-DSA (FIPS 204, pure); the input is the message.
    MlDsa {
        /// At most 255 bytes; `MechanismParamInvalid` beyond.
        context: Box<[u8]>,
        /// Whether randomness enters a signature; verification does not read it.
        deterministic: bool,
    },
}
