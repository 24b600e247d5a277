//! The signature and encryption schemes of key pairs, with their parameters.

use jeton_words::hash::Hash;

use super::algorithm::Stateful;

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
    /// Pure Ed25519 (RFC 8032). The input is the message.
    Ed25519,
    /// Ed25519ctx or Ed25519ph (RFC 8032). The input is the message, or with `prehash` its SHA-512
    /// digest.
    Ed25519Context {
        /// Whether the scheme is Ed25519ph.
        prehash: bool,
        /// The context, at most 255 bytes.
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
    /// ML-DSA of a message representative (FIPS 204, algorithm 7, line 6). The input is this mu. It
    /// has 64 bytes; another length fails with `DataLenRange`.
    MlDsaMu {
        /// Whether to sign without randomness. A verifier ignores it.
        deterministic: bool,
    },
    /// Composite ML-DSA (draft-ietf-lamps-pq-composite-sigs). The input is the message.
    Composite {
        /// The context. More than 255 bytes fail with `MechanismParamInvalid`.
        context: Box<[u8]>,
        /// Whether ML-DSA signs without randomness. A verifier ignores it.
        deterministic: bool,
    },
    /// A stateful hash-based signature (SP 800-208). The input is the message.
    Stateful(Stateful),
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
