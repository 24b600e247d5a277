//! Hash functions and the lengths of their outputs.

use serde::{Deserialize, Serialize};

/// Hash functions (FIPS 180-4, FIPS 202, RFC 7693). The SHAKEs have the output lengths that
/// signatures use (FIPS 204, 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha512_224,
    Sha512_256,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Shake128,
    Shake256,
    Blake2b160,
    Blake2b256,
    Blake2b384,
    Blake2b512,
}

const _: () = assert!(Hash::ALL.len() + Hash::BLAKE2B.len() == Hash::Blake2b512 as usize + 1);

impl Hash {
    /// Every hash of NIST.
    pub const ALL: [Self; 13] = [
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
        Self::Sha512_224,
        Self::Sha512_256,
        Self::Sha3_224,
        Self::Sha3_256,
        Self::Sha3_384,
        Self::Sha3_512,
        Self::Shake128,
        Self::Shake256,
    ];
    /// BLAKE2b, at the lengths that PKCS#11 defines.
    pub const BLAKE2B: [Self; 4] = [Self::Blake2b160, Self::Blake2b256, Self::Blake2b384, Self::Blake2b512];

    /// Checks whether the hash is one of RFC 7693. Some backends do not support those.
    pub const fn is_blake2b(self) -> bool {
        matches!(self, Self::Blake2b160 | Self::Blake2b256 | Self::Blake2b384 | Self::Blake2b512)
    }

    /// The length of the longest digest in bytes.
    pub const MAX_LEN: usize = 64;

    /// Returns the length of the digest in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no digest is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha1 | Self::Blake2b160 => 20,
            Self::Sha224 | Self::Sha512_224 | Self::Sha3_224 => 28,
            Self::Sha256 | Self::Sha512_256 | Self::Sha3_256 | Self::Shake128 | Self::Blake2b256 => 32,
            Self::Sha384 | Self::Sha3_384 | Self::Blake2b384 => 48,
            Self::Sha512 | Self::Sha3_512 | Self::Shake256 | Self::Blake2b512 => 64,
        }
    }
}
