//! The numbers of a key: a backend generates them and parses them.

use jeton_crypto::hash_based::HssType;
use jeton_secret::Secret;

use super::algorithm::{Curve, MlDsa, MlKem, SlhDsa, Stateful};
use super::composite::Composite;

/// The smallest RSA modulus in bits of a public key. A key of less than 1024 bits can only verify:
/// its owner is not secure.
pub const SHORTEST_RSA: usize = 512;

/// The type and the parameters of a key pair to generate.
pub enum PairSpec<'a> {
    /// RSA. The exponent is a big-endian integer without leading zeros.
    Rsa {
        /// The size of the modulus in bits: 1024 to 8192.
        bits: usize,
        /// An odd integer of at least 3, usually 65537. The generation fails with `DataInvalid` if
        /// the backend does not support it.
        public_exponent: &'a [u8],
    },
    /// A key pair on an elliptic curve.
    Ec(Curve),
    /// Ed25519.
    Ed25519,
    /// ML-DSA, optionally from a seed.
    MlDsa {
        /// The parameter set.
        set: MlDsa,
        /// A seed of 32 bytes. `None` generates a random one.
        seed: Option<&'a Secret>,
    },
    /// Ed448.
    Ed448,
    /// X25519.
    X25519,
    /// X448.
    X448,
    /// ML-KEM, optionally from a seed (d || z).
    MlKem {
        /// The parameter set.
        set: MlKem,
        /// A seed of 64 bytes. `None` generates a random one.
        seed: Option<&'a Secret>,
    },
    /// SLH-DSA, optionally from a seed (SK.seed || SK.prf || PK.seed).
    SlhDsa {
        /// The parameter set.
        set: SlhDsa,
        /// A seed of `3 * set.n()` bytes. `None` generates a random one.
        seed: Option<&'a Secret>,
    },
    /// Composite ML-DSA. Both components are new.
    Composite(&'static Composite),
    /// HSS (RFC 8554, SP 800-208). The generation fails with `DataInvalid` if no parameter set has
    /// these types, or if two levels have different hashes.
    Hss {
        /// The types of each level, from the top.
        types: Vec<HssType>,
        /// The number of threads that compute the top tree.
        threads: usize,
    },
    /// Diffie-Hellman (PKCS #3), from integers without leading zeros. The generation fails with
    /// `DomainParamsInvalid` if the prime is even or the base is not from 2 to the prime minus 2.
    /// It fails with `KeySizeRange` if the prime does not have 1024 to 8192 bits. It fails with the
    /// same error if the private value has less than 160 bits, or at least as many bits as the
    /// prime.
    Dh {
        /// The prime.
        prime: &'a [u8],
        /// The base.
        base: &'a [u8],
        /// The size of the private value in bits. `None` means one bit less than the prime.
        private_bits: Option<usize>,
    },
}

/// The numbers of a public key. Integers are unsigned, big-endian and without leading zeros. The
/// other values have the encoding of their standard.
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
        /// PK.seed || PK.root.
        key: Vec<u8>,
    },
    Composite {
        set: &'static Composite,
        ml_dsa: Vec<u8>,
        traditional: Box<PublicParts>,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Vec<u8>,
    },
    Stateful {
        family: Stateful,
        /// The key in the encoding of RFC 8554 (HSS) or RFC 8391.
        key: Vec<u8>,
    },
}

impl PublicParts {
    /// Returns the key whose numbers can be weak: the traditional component of a composite key, or
    /// the key itself.
    pub(crate) fn traditional(&self) -> &Self {
        match self {
            Self::Composite { traditional, .. } => traditional,
            other => other,
        }
    }

    /// Returns the bytes of a key that is not made of integers or of other keys.
    pub(crate) fn encoded(&self) -> Option<&[u8]> {
        match self {
            Self::Ec { point, .. } => Some(point),
            Self::Ed25519 { point } | Self::X25519 { point } => Some(point),
            Self::Ed448 { point } => Some(point),
            Self::X448 { point } => Some(point),
            Self::MlDsa { key, .. }
            | Self::MlKem { key, .. }
            | Self::SlhDsa { key, .. }
            | Self::Stateful { key, .. } => Some(key),
            Self::Rsa { .. } | Self::Dh { .. } | Self::Composite { .. } => None,
        }
    }
}

/// The numbers of a private key. Integers are unsigned and big-endian.
#[allow(missing_docs, reason = "the names are the algorithms' own")]
pub enum PrivateParts {
    Rsa(RsaPrivate),
    Ec {
        curve: Curve,
        /// The scalar, of `curve.len()` bytes.
        scalar: Secret,
    },
    Ed25519 {
        /// 32 bytes (RFC 8032).
        seed: Secret,
    },
    MlDsa {
        set: MlDsa,
        /// 32 bytes, or `None` if only the expanded key is known.
        seed: Option<Secret>,
        /// The expanded key, of `set.private_len()` bytes.
        key: Secret,
    },
    Ed448 {
        /// 57 bytes (RFC 8032).
        seed: Secret,
    },
    X25519 {
        /// 32 bytes (RFC 7748), not clamped. The computation clamps them.
        scalar: Secret,
    },
    X448 {
        /// 56 bytes (RFC 7748).
        scalar: Secret,
    },
    MlKem {
        set: MlKem,
        /// 64 bytes (d || z), or `None` if only the expanded key is known.
        seed: Option<Secret>,
        /// The expanded decapsulation key, of `set.private_len()` bytes.
        key: Secret,
    },
    SlhDsa {
        set: SlhDsa,
        /// SK.seed || SK.prf || PK.seed || PK.root.
        key: Secret,
    },
    Composite {
        set: &'static Composite,
        /// The seed of the ML-DSA key: 32 bytes.
        seed: Secret,
        traditional: Box<PrivateParts>,
    },
    Hss {
        types: Vec<HssType>,
        /// The identifier of the top tree, its seed and the nodes that it keeps.
        key: Secret,
    },
    Dh {
        prime: Vec<u8>,
        base: Vec<u8>,
        value: Secret,
    },
}

/// An RSA private key. It is slower without the primes. Without `e`, `rustcrypto` computes `e` from
/// the primes. Without the primes, and in `aws-lc`, a backend tries the usual exponents, and fails
/// with `DataInvalid` if none of them fits.
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaPrivate {
    pub n: Vec<u8>,
    pub e: Option<Vec<u8>>,
    pub d: Secret,
    pub crt: Option<RsaCrt>,
}

impl RsaPrivate {
    /// The public exponents of common software: the Fermat numbers F4, F0, F1, F3 and F2, and the
    /// exponents of old OpenSSH (35), PuTTY (37) and GnuPG (41).
    pub(in crate::backend) const USUAL_EXPONENTS: [u32; 8] = [65537, 3, 5, 257, 17, 35, 37, 41];
}

/// The factors, exponents and coefficient of the Chinese remainder theorem (RFC 8017, 3.2).
#[allow(missing_docs, reason = "the names are the algorithm's own")]
pub struct RsaCrt {
    pub p: Secret,
    pub q: Secret,
    pub dp: Secret,
    pub dq: Secret,
    pub qinv: Secret,
}
