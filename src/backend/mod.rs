//! The interface to a crypto library: random bytes, digests, ciphers, MACs, keys, signers and
//! verifiers.
//!
//! A backend does not know PKCS#11. It is a constant [`Provider`]. `aws_lc/` and `rustcrypto/`
//! mirror each other: files of the same name have the same task. A backend parses the
//! [parts](PrivateParts) of a key at the first use of the key. The token then keeps the parsed key.

#![cfg_attr(
    not(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]

use std::sync::Arc;

use jeton_secret::Secret;

use crate::error::{Error, Result};

mod algorithm;
#[cfg(any(feature = "aws-lc", feature = "fips"))]
pub mod aws_lc;
pub(crate) mod batch;
pub mod des3;
mod dh;
mod dsa;
pub(crate) mod extra_bits;
pub(crate) mod hash_based;
#[cfg(all(feature = "aws-lc", feature = "rustcrypto"))]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables, reason = "other processors lack the instructions")
)]
mod lanes;
#[cfg_attr(
    not(all(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, unused_imports, reason = "each backend uses some of the modes")
)]
mod modes;
#[cfg(feature = "null-backend")]
pub mod null;
pub(crate) mod padding;
mod parts;
#[cfg(not(feature = "fips"))]
mod prehash;
mod rejection;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;
mod symmetric;

pub use algorithm::{Curve, Hash, MlDsa, MlKem, SlhDsa, Stateful};
pub use batch::Job;
pub use parts::{DsaGroup, HssType, PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate, SHORTEST_RSA};
pub use symmetric::{
    Aead, AeadScheme, Cipher, CipherMode, CipherScheme, Ciphers, Direction, GcmParams, Growth, Mac,
    MacScheme, Macs, Nonce, Renewal, SavedCipher,
};

/// A backend. Each library has one constant of this type.
pub struct Provider {
    /// The name in the configuration, such as `aws-lc` or `rustcrypto`.
    pub name: &'static str,
    /// The random generator.
    pub random: &'static dyn Random,
    /// Message digests.
    pub digest: &'static dyn Digest,
    /// Generation and loading of key pairs.
    pub keys: &'static dyn Keys,
    /// Symmetric ciphers.
    pub ciphers: &'static dyn Ciphers,
    /// Message authentication codes.
    pub macs: &'static dyn Macs,
}

/// Repeats the self-tests of the validated module. Fails with `FipsSelfTestFailed`. Without such a
/// module it does nothing.
pub(crate) fn self_test() -> Result<()> {
    #[cfg(feature = "fips")]
    if !aws_lc::self_test() {
        tracing::error!("AWS-LC FIPS: a self-test failed");
        return Err(Error::FipsSelfTestFailed);
    }
    Ok(())
}

/// Says whether callers that wait may compute together, with vector instructions. Later signers
/// follow it.
#[cfg_attr(not(all(feature = "aws-lc", feature = "rustcrypto")), allow(unused_variables))]
pub(crate) fn allow_lanes(allowed: bool) {
    #[cfg(all(feature = "aws-lc", feature = "rustcrypto"))]
    lanes::allow(allowed);
}

impl Provider {
    /// The backends of this build. The first is the default.
    pub const ALL: &'static [&'static Provider] = &[
        #[cfg(any(feature = "aws-lc", feature = "fips"))]
        &aws_lc::PROVIDER,
        #[cfg(feature = "rustcrypto")]
        &rustcrypto::PROVIDER,
        #[cfg(feature = "null-backend")]
        &null::PROVIDER,
    ];

    /// Returns the backend with this name, or `None` if this build does not have it.
    pub fn named(name: &str) -> Option<&'static Provider> {
        Self::ALL.iter().copied().find(|provider| provider.name == name)
    }

    /// Computes the MAC of a message that consists of several parts.
    pub fn mac(&self, scheme: &MacScheme, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
        let mut mac = self.macs.mac(scheme, key)?;
        parts.iter().try_for_each(|part| mac.update(part))?;
        let mut out = Secret::zeroed(mac.mac_len());
        mac.finish(&mut out)?;
        Ok(out)
    }
}

const _: () = assert!(!Provider::ALL.is_empty(), "enable the feature aws-lc, rustcrypto or both");

#[cfg(all(feature = "fips", any(feature = "aws-lc", feature = "rustcrypto", feature = "postgresql")))]
compile_error!("the feature fips is a build of its own: --no-default-features --features fips");

/// A random generator for keys and nonces. It is safe to use across threads and after `fork`.
pub trait Random: Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
    /// Returns `len` random bytes.
    fn secret(&self, len: usize) -> Result<Secret> {
        let mut secret = Secret::zeroed(len);
        self.fill(&mut secret)?;
        Ok(secret)
    }
    /// Returns a copy of the caller's seed, or `len` random bytes if there is none.
    fn seed(&self, given: Option<&Secret>, len: usize) -> Result<Secret> {
        given.map_or_else(|| self.secret(len), |seed| Ok(seed.duplicate()))
    }
}

/// Message digests (FIPS 180-4, FIPS 202, RFC 7693).
pub trait Digest: Sync {
    /// Writes the digest of `data` to `out`, which has `hash.len()` bytes.
    fn hash(&self, hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()>;
    /// Starts a digest of a message in several parts.
    fn start(&self, hash: Hash) -> Result<Box<dyn Hasher>>;
}

/// A running digest.
pub trait Hasher: Send {
    /// Adds data to the message.
    fn update(&mut self, data: &[u8]) -> Result<()>;
    /// Writes the digest to `out` (`hash.len()` bytes) and starts a new message.
    fn finish(&mut self, out: &mut [u8]) -> Result<()>;
    /// Discards the current message and starts a new one.
    fn reset(&mut self) -> Result<()>;
    /// Copies the digest with its current state. Fails with `StateUnsaveable` if the library cannot
    /// copy.
    fn duplicate(&self) -> Result<Box<dyn Hasher>> {
        Err(Error::StateUnsaveable)
    }
}

/// Generation and loading of key pairs.
pub trait Keys: Sync {
    /// Generates a key pair. RSA is slow, so the caller must not hold a lock.
    fn generate(&self, spec: &PairSpec<'_>) -> Result<(PublicParts, PrivateParts)>;
    /// Parses a private key. Fails with `DataInvalid` if the parts are not a key, and with
    /// `KeySizeRange` if the size is not supported.
    fn private(&self, parts: &PrivateParts) -> Result<Arc<dyn PrivateKey>>;
    /// Parses a public key. Fails with `DataInvalid` if a point is not on its curve.
    fn public(&self, parts: &PublicParts) -> Result<Arc<dyn PublicKey>>;
    /// Generates a safe prime p of this size in bits: (p - 1) / 2 is prime too. This is slow, so
    /// the caller must not hold a lock.
    fn safe_prime(&self, bits: usize) -> Result<Vec<u8>>;
    /// Checks that prime and base can form a Diffie-Hellman group. Fails with `KeySizeRange` if the
    /// prime does not have 512 to 8192 bits. Fails with `DomainParamsInvalid` if the prime is even
    /// or the base is not from 2 to the prime minus 2.
    fn check_group(&self, prime: &[u8], base: &[u8]) -> Result<()> {
        dh::check_group(prime, base)
    }
    /// Generates domain parameters of DSA with primes of these sizes in bits. Fails with
    /// `KeySizeRange` unless FIPS 186-4 has this pair of sizes. This is slow, so the caller must
    /// not hold a lock.
    fn dsa_group(&self, _prime_bits: usize, _subprime_bits: usize) -> Result<DsaGroup> {
        Err(Error::MechanismInvalid)
    }
    /// Checks domain parameters of DSA that a caller supplied. Fails with `KeySizeRange` if the
    /// prime does not have 1024 to 3072 bits, or if the subprime does not have 160, 224 or 256
    /// bits. Fails with `DomainParamsInvalid` if one of them is not prime, or the base does not
    /// have the subprime as its order. [`private`](Self::private) and [`public`](Self::public) test
    /// everything except whether the numbers are prime.
    fn check_dsa_group(&self, _group: &DsaGroup) -> Result<()> {
        Err(Error::MechanismInvalid)
    }
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

/// The encryption scheme of an RSA key.
#[derive(Clone, PartialEq, Eq)]
pub enum Encryption {
    /// RSAEP of RFC 8017, on the input as an integer. A shorter input is padded with zeros on the
    /// left.
    Raw,
    /// RSAES-PKCS1-v1_5. A wrong padding decrypts to a synthetic message (implicit rejection).
    Pkcs1,
    /// RSAES-OAEP.
    Oaep {
        /// The hash function of the label.
        hash: Hash,
        /// The hash function of MGF1.
        mgf: Hash,
        /// The label.
        label: Box<[u8]>,
    },
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

/// The signature scheme of a key. If the scheme takes a digest, the caller hashes the message.
#[derive(Clone, PartialEq, Eq)]
pub enum Scheme {
    /// RSASP1 of RFC 8017, on the input as an integer. A shorter input is padded with zeros on the
    /// left. Signing fails with `DataInvalid` if the input is not below the modulus.
    RsaRaw,
    /// RSASSA-PKCS1-v1_5. With a hash the input is its digest, and the backend adds the DigestInfo.
    /// Without a hash the input is padded unchanged, and has at most the length of the modulus
    /// minus 11 bytes.
    RsaPkcs1 {
        /// The hash function of the DigestInfo.
        hash: Option<Hash>,
    },
    /// RSASSA-PSS. The input is a digest.
    RsaPss {
        /// The hash function of the digest.
        hash: Hash,
        /// The hash function of the mask generation function MGF1.
        mgf: Hash,
        /// The length of the salt in bytes.
        salt_len: usize,
    },
    /// ECDSA. The input is a digest of any length. If it is longer than the order, only its
    /// leftmost bits are used (FIPS 186-5, 6.4). The signature is r || s, each as long as the
    /// order. A verifier also accepts a shorter r || s, from which common leading zeros were
    /// removed: r and s must have equal lengths.
    Ecdsa,
    /// DSA (FIPS 186-4, 4.6). The input is a digest of 20, 28, 32, 48 or 64 bytes. Another length
    /// fails with `DataLenRange`. If the digest is longer than the subprime, only its leftmost bits
    /// are used. The signature is r || s, each as long as the subprime.
    Dsa,
    /// Pure Ed25519 (RFC 8032). The input is the message.
    Ed25519,
    /// Ed25519ctx or Ed25519ph (RFC 8032). The input is the message, or with `prehash` its SHA-512
    /// digest.
    Ed25519Context {
        /// Whether the scheme is Ed25519ph.
        prehash: bool,
        /// The context, at most 255 bytes. Ed25519ctx needs at least one byte, or fails with
        /// `MechanismParamInvalid`.
        context: Box<[u8]>,
    },
    /// Ed448 or Ed448ph (RFC 8032). The input is the message, or with `prehash` its SHAKE256 digest
    /// of 64 bytes.
    Ed448 {
        /// Whether the scheme is Ed448ph.
        prehash: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
    },
    /// SLH-DSA (FIPS 205). Without a hash it is pure and the input is the message. With a hash it
    /// is HashSLH-DSA and the input is a digest.
    SlhDsa {
        /// The hash function of the digest.
        hash: Option<Hash>,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
        /// Whether to sign without randomness.
        deterministic: bool,
    },
    /// ML-DSA (FIPS 204). Without a hash it is pure and the input is the message. With a hash it is
    /// HashML-DSA and the input is a digest.
    MlDsa {
        /// The hash function of the digest.
        hash: Option<Hash>,
        /// The context. More than 255 bytes fail with `MechanismParamInvalid`.
        context: Box<[u8]>,
        /// Whether to sign without randomness. A verifier ignores it.
        deterministic: bool,
    },
    /// A stateful hash-based signature (SP 800-208). The input is the message.
    Stateful(Stateful),
}

/// Returns the first `len` bytes of the caller's buffer.
fn output(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    out.get_mut(..len).ok_or(Error::BufferTooSmall { needed: len })
}
