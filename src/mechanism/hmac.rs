//! HMAC and its keys (PKCS#11 3.2, "HMAC mechanisms").

use super::{Action, MacFunction, MechanismRow};
use crate::backend::Hash;
use crate::id::{KeyType, MechanismType as M};

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (1, 4096);

/// Defines the rows of each hash: its HMAC, its HMAC of a length that the caller chooses, and the
/// generation of its keys. The type of the keys has the name of the HMAC.
macro_rules! hashes {
    ($($hash:ident: $hmac:ident $general:ident $generate:ident;)*) => {
        pub(super) const ROWS: &[MechanismRow] = &[$(
            hmac(M::$hmac),
            hmac(M::$general),
            MechanismRow::generates(Action::Generate, M::$generate, KeyType::$hmac, BYTES),
        )*];

        /// Returns the type of the HMAC keys of a hash, or `None` for the SHAKEs.
        pub const fn key_type(hash: Hash) -> Option<KeyType> {
            Some(match hash {
                $(Hash::$hash => KeyType::$hmac,)*
                Hash::Shake128 | Hash::Shake256 => return None,
            })
        }
    };
}

hashes! {
    Sha1: SHA_1_HMAC SHA_1_HMAC_GENERAL SHA_1_KEY_GEN;
    Sha224: SHA224_HMAC SHA224_HMAC_GENERAL SHA224_KEY_GEN;
    Sha256: SHA256_HMAC SHA256_HMAC_GENERAL SHA256_KEY_GEN;
    Sha384: SHA384_HMAC SHA384_HMAC_GENERAL SHA384_KEY_GEN;
    Sha512: SHA512_HMAC SHA512_HMAC_GENERAL SHA512_KEY_GEN;
    Sha512_224: SHA512_224_HMAC SHA512_224_HMAC_GENERAL SHA512_224_KEY_GEN;
    Sha512_256: SHA512_256_HMAC SHA512_256_HMAC_GENERAL SHA512_256_KEY_GEN;
    Sha3_224: SHA3_224_HMAC SHA3_224_HMAC_GENERAL SHA3_224_KEY_GEN;
    Sha3_256: SHA3_256_HMAC SHA3_256_HMAC_GENERAL SHA3_256_KEY_GEN;
    Sha3_384: SHA3_384_HMAC SHA3_384_HMAC_GENERAL SHA3_384_KEY_GEN;
    Sha3_512: SHA3_512_HMAC SHA3_512_HMAC_GENERAL SHA3_512_KEY_GEN;
    Blake2b160: BLAKE2B_160_HMAC BLAKE2B_160_HMAC_GENERAL BLAKE2B_160_KEY_GEN;
    Blake2b256: BLAKE2B_256_HMAC BLAKE2B_256_HMAC_GENERAL BLAKE2B_256_KEY_GEN;
    Blake2b384: BLAKE2B_384_HMAC BLAKE2B_384_HMAC_GENERAL BLAKE2B_384_KEY_GEN;
    Blake2b512: BLAKE2B_512_HMAC BLAKE2B_512_HMAC_GENERAL BLAKE2B_512_KEY_GEN;
}

/// Builds a row. PKCS#11 3.2, "HMAC mechanisms": the keys are generic secrets or have the key type
/// of the hash.
const fn hmac(id: M) -> MechanismRow {
    let row = MechanismRow::codes(id, KeyType::GENERIC_SECRET, BYTES);
    let Action::Mac(MacFunction::Hmac(hash)) = row.action else { panic!("not an HMAC") };
    MechanismRow { other_key_type: key_type(hash), ..row }
}
