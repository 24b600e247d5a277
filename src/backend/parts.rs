//! Keys as their numbers: what a backend makes, and what it parses.

use super::{Curve, MlDsa, MlKem, SlhDsa};
use crate::secret::Secret;

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
    /// Ed448.
    Ed448,
    /// X25519.
    X25519,
    /// X448.
    X448,
    /// ML-KEM, from a seed (d || z) where one is given.
    MlKem {
        /// The parameter set.
        set: MlKem,
        /// 64 bytes; random without.
        seed: Option<&'a Secret>,
    },
    /// SLH-DSA, from a seed (SK.seed || SK.prf || PK.seed) where one is given.
    SlhDsa {
        /// The parameter set.
        set: SlhDsa,
        /// `3 * set.n()` bytes; random without.
        seed: Option<&'a Secret>,
    },
    /// Diffie-Hellman (PKCS #3), from integers without leading zeros. `DomainParamsInvalid` where they make no group
    /// (the prime even, the base not between 2 and the prime less 2), `KeySizeRange` where the prime has not 1024 to
    /// 8192 bits or the private value not at least 160 and fewer than the prime.
    Dh {
        /// The prime.
        prime: &'a [u8],
        /// The base.
        base: &'a [u8],
        /// Size of the private value in bits; one less than the prime's without.
        private_bits: Option<usize>,
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
    Ed448 {
        point: [u8; 57],
    },
    X25519 {
        point: [u8; 32],
    },
    X448 {
        point: [u8; 56],
    },
    MlKem {
        set: MlKem,
        key: Vec<u8>,
    },
    SlhDsa {
        set: SlhDsa,
        /// PK.seed || PK.root
        key: Vec<u8>,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Vec<u8>,
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
    Ed448 {
        /// 57 bytes (RFC 8032).
        seed: Secret,
    },
    X25519 {
        /// 32 bytes (RFC 7748), as given: clamping is the computation's work.
        scalar: Secret,
    },
    X448 {
        /// 56 bytes (RFC 7748).
        scalar: Secret,
    },
    MlKem {
        set: MlKem,
        /// 64 bytes (d || z), where known.
        seed: Option<Secret>,
        /// The expanded decapsulation key, `set.private_len()` bytes.
        key: Secret,
    },
    SlhDsa {
        set: SlhDsa,
        /// SK.seed || SK.prf || PK.seed || PK.root
        key: Secret,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Secret,
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
