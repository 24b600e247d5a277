//! What a crypto library gives to the token: random bytes, digests, keys, signers and verifiers, in our own words.
//!
//! A backend knows no PKCS#11. It is a constant [`Provider`]; `aws_lc/` and `rustcrypto/` are mirror images with the
//! same file names. Keys cross this line as [parts](PrivateParts) once, when they are first used, and stay parsed.

use std::sync::Arc;

use crate::error::Result;
use crate::secret::Secret;

#[cfg(feature = "aws-lc")]
pub mod aws_lc;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;

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
}

impl Provider {
    /// The backends compiled into this build, the default first.
    pub const ALL: &'static [&'static Provider] = &[
        #[cfg(feature = "aws-lc")]
        &aws_lc::PROVIDER,
        #[cfg(feature = "rustcrypto")]
        &rustcrypto::PROVIDER,
    ];

    /// The backend of that name, if this build has it.
    pub fn named(name: &str) -> Option<&'static Provider> {
        Self::ALL.iter().copied().find(|provider| provider.name == name)
    }
}

const _: () = assert!(!Provider::ALL.is_empty(), "enable the feature aws-lc, rustcrypto or both");

/// A generator fit for keys and nonces, safe across threads and `fork`.
pub trait Random: Sync {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
}

/// Message digests (FIPS 180-4).
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
}

/// A parsed private key, shared by the sessions that use it.
pub trait PrivateKey: Send + Sync {
    /// The public half, computed from the private one (`DataInvalid` where the parts do not suffice, as for RSA
    /// without its public exponent).
    fn public(&self) -> Result<PublicParts>;
    /// A signer owned by one session. `KeyTypeInconsistent` where key and scheme do not fit; `KeySizeRange` where
    /// the key is too small for the scheme (RSA-512 with SHA-512).
    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>>;
}

/// A parsed public key, shared by the sessions that use it.
pub trait PublicKey: Send + Sync {
    /// A verifier owned by one session; the errors of [`PrivateKey::signer`].
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>>;
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
    /// ML-DSA (FIPS 204, pure); the input is the message.
    MlDsa {
        /// At most 255 bytes; `MechanismParamInvalid` beyond.
        context: Box<[u8]>,
        /// Whether randomness enters a signature; verification does not read it.
        deterministic: bool,
    },
}

/// Hash functions (FIPS 180-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// The longest digest of all, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Length of the digest in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no digest is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// Elliptic curves for ECDSA (SP 800-186).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// Every curve.
    pub const ALL: [Curve; 3] = [Curve::P256, Curve::P384, Curve::P521];

    /// Size of the order in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    /// Length in bytes of a coordinate, a scalar, and of half a signature.
    #[allow(clippy::len_without_is_empty, reason = "no scalar is empty")]
    pub const fn len(self) -> usize {
        self.bits().div_ceil(8)
    }
}

/// Parameter sets of ML-DSA (FIPS 204, table 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum MlDsa {
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

impl MlDsa {
    /// Every parameter set.
    pub const ALL: [MlDsa; 3] = [MlDsa::MlDsa44, MlDsa::MlDsa65, MlDsa::MlDsa87];
    /// Length of a seed in bytes.
    pub const SEED_LEN: usize = 32;
    /// Longest context in bytes.
    pub const MAX_CONTEXT: usize = 255;

    /// Length of a public key in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Self::MlDsa44 => 1312,
            Self::MlDsa65 => 1952,
            Self::MlDsa87 => 2592,
        }
    }

    /// Length of an expanded private key in bytes.
    pub const fn private_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2560,
            Self::MlDsa65 => 4032,
            Self::MlDsa87 => 4896,
        }
    }

    /// Length of a signature in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::MlDsa44 => 2420,
            Self::MlDsa65 => 3309,
            Self::MlDsa87 => 4627,
        }
    }
}

/// What key pair to make.
pub enum PairSpec<'a> {
    /// RSA; the exponent is a big-endian integer without leading zeros.
    Rsa {
        /// Size of the modulus in bits, 2048 to 8192.
        bits: usize,
        /// An odd integer of at least 3 (65537 in practice; `DataInvalid` where the backend will not take it).
        public_exponent: &'a [u8],
    },
    /// An elliptic curve.
    Ec(Curve),
    /// Ed25519.
    Ed25519,
    /// ML-DSA, from a seed where one is given.
    MlDsa {
        /// The parameter set.
        set: MlDsa,
        /// 32 bytes; random without.
        seed: Option<&'a Secret>,
    },
}

/// A public key as its numbers: unsigned big-endian integers without leading zeros, points uncompressed.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the algorithms' own")]
pub enum PublicParts {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Ec {
        curve: Curve,
        /// `04 || x || y` (SEC 1).
        point: Vec<u8>,
    },
    Ed25519 {
        point: [u8; 32],
    },
    MlDsa {
        set: MlDsa,
        key: Vec<u8>,
    },
}

/// A private key as its numbers, in the forms of [`PublicParts`].
#[allow(missing_docs, reason = "the names are the algorithms' own")]
pub enum PrivateParts {
    Rsa(RsaPrivate),
    Ec {
        curve: Curve,
        /// The scalar, `curve.len()` bytes.
        scalar: Secret,
    },
    Ed25519 {
        /// 32 bytes (RFC 8032).
        seed: Secret,
    },
    MlDsa {
        set: MlDsa,
        /// 32 bytes, where known.
        seed: Option<Secret>,
        /// The expanded key, `set.private_len()` bytes.
        key: Secret,
    },
}

/// An RSA private key. Without the primes it works slower; without `e` it is not blinded by every library.
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaPrivate {
    pub n: Vec<u8>,
    pub e: Option<Vec<u8>>,
    pub d: Secret,
    pub crt: Option<RsaCrt>,
}

/// The factors and exponents of the Chinese remainder theorem (RFC 8017, 3.2).
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaCrt {
    pub p: Secret,
    pub q: Secret,
    pub dp: Secret,
    pub dq: Secret,
    pub qinv: Secret,
}
