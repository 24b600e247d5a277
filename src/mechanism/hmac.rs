//! HMAC and its keys (PKCS#11 3.2, "HMAC mechanisms").

use super::{Action, MacFunction, MechanismRow, Shape};
use crate::backend::Hash;
use crate::id::KeyType;
use crate::id::MechanismType as M;

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (1, 4096);

pub(super) const ROWS: &[MechanismRow] = &[
    hmac(M::SHA_1_HMAC, Shape::None, Hash::Sha1),
    hmac(M::SHA_1_HMAC_GENERAL, Shape::Length, Hash::Sha1),
    generates(M::SHA_1_KEY_GEN, KeyType::SHA_1_HMAC),
    hmac(M::SHA224_HMAC, Shape::None, Hash::Sha224),
    hmac(M::SHA224_HMAC_GENERAL, Shape::Length, Hash::Sha224),
    generates(M::SHA224_KEY_GEN, KeyType::SHA224_HMAC),
    hmac(M::SHA256_HMAC, Shape::None, Hash::Sha256),
    hmac(M::SHA256_HMAC_GENERAL, Shape::Length, Hash::Sha256),
    generates(M::SHA256_KEY_GEN, KeyType::SHA256_HMAC),
    hmac(M::SHA384_HMAC, Shape::None, Hash::Sha384),
    hmac(M::SHA384_HMAC_GENERAL, Shape::Length, Hash::Sha384),
    generates(M::SHA384_KEY_GEN, KeyType::SHA384_HMAC),
    hmac(M::SHA512_HMAC, Shape::None, Hash::Sha512),
    hmac(M::SHA512_HMAC_GENERAL, Shape::Length, Hash::Sha512),
    generates(M::SHA512_KEY_GEN, KeyType::SHA512_HMAC),
    hmac(M::SHA512_224_HMAC, Shape::None, Hash::Sha512_224),
    hmac(M::SHA512_224_HMAC_GENERAL, Shape::Length, Hash::Sha512_224),
    generates(M::SHA512_224_KEY_GEN, KeyType::SHA512_224_HMAC),
    hmac(M::SHA512_256_HMAC, Shape::None, Hash::Sha512_256),
    hmac(M::SHA512_256_HMAC_GENERAL, Shape::Length, Hash::Sha512_256),
    generates(M::SHA512_256_KEY_GEN, KeyType::SHA512_256_HMAC),
    hmac(M::SHA3_224_HMAC, Shape::None, Hash::Sha3_224),
    hmac(M::SHA3_224_HMAC_GENERAL, Shape::Length, Hash::Sha3_224),
    generates(M::SHA3_224_KEY_GEN, KeyType::SHA3_224_HMAC),
    hmac(M::SHA3_256_HMAC, Shape::None, Hash::Sha3_256),
    hmac(M::SHA3_256_HMAC_GENERAL, Shape::Length, Hash::Sha3_256),
    generates(M::SHA3_256_KEY_GEN, KeyType::SHA3_256_HMAC),
    hmac(M::SHA3_384_HMAC, Shape::None, Hash::Sha3_384),
    hmac(M::SHA3_384_HMAC_GENERAL, Shape::Length, Hash::Sha3_384),
    generates(M::SHA3_384_KEY_GEN, KeyType::SHA3_384_HMAC),
    hmac(M::SHA3_512_HMAC, Shape::None, Hash::Sha3_512),
    hmac(M::SHA3_512_HMAC_GENERAL, Shape::Length, Hash::Sha3_512),
    generates(M::SHA3_512_KEY_GEN, KeyType::SHA3_512_HMAC),
    hmac(M::BLAKE2B_160_HMAC, Shape::None, Hash::Blake2b160),
    hmac(M::BLAKE2B_160_HMAC_GENERAL, Shape::Length, Hash::Blake2b160),
    generates(M::BLAKE2B_160_KEY_GEN, KeyType::BLAKE2B_160_HMAC),
    hmac(M::BLAKE2B_256_HMAC, Shape::None, Hash::Blake2b256),
    hmac(M::BLAKE2B_256_HMAC_GENERAL, Shape::Length, Hash::Blake2b256),
    generates(M::BLAKE2B_256_KEY_GEN, KeyType::BLAKE2B_256_HMAC),
    hmac(M::BLAKE2B_384_HMAC, Shape::None, Hash::Blake2b384),
    hmac(M::BLAKE2B_384_HMAC_GENERAL, Shape::Length, Hash::Blake2b384),
    generates(M::BLAKE2B_384_KEY_GEN, KeyType::BLAKE2B_384_HMAC),
    hmac(M::BLAKE2B_512_HMAC, Shape::None, Hash::Blake2b512),
    hmac(M::BLAKE2B_512_HMAC_GENERAL, Shape::Length, Hash::Blake2b512),
    generates(M::BLAKE2B_512_KEY_GEN, KeyType::BLAKE2B_512_HMAC),
];

/// Builds a row. PKCS#11 3.2, "HMAC mechanisms": the keys are generic secrets or have the key type
/// of the hash.
const fn hmac(id: M, shape: Shape, hash: Hash) -> MechanismRow {
    let action = Action::Mac(MacFunction::Hmac(hash));
    let row = MechanismRow::signs(id, KeyType::GENERIC_SECRET, BYTES, shape, action);
    MechanismRow { other_key_type: key_type(hash), ..row }
}

const fn generates(id: M, key_type: KeyType) -> MechanismRow {
    MechanismRow::generates(Action::Generate, id, key_type, BYTES)
}

/// Returns the type of the HMAC keys of a hash, or `None` for the SHAKEs.
pub const fn key_type(hash: Hash) -> Option<KeyType> {
    Some(match hash {
        Hash::Sha1 => KeyType::SHA_1_HMAC,
        Hash::Sha224 => KeyType::SHA224_HMAC,
        Hash::Sha256 => KeyType::SHA256_HMAC,
        Hash::Sha384 => KeyType::SHA384_HMAC,
        Hash::Sha512 => KeyType::SHA512_HMAC,
        Hash::Sha512_224 => KeyType::SHA512_224_HMAC,
        Hash::Sha512_256 => KeyType::SHA512_256_HMAC,
        Hash::Sha3_224 => KeyType::SHA3_224_HMAC,
        Hash::Sha3_256 => KeyType::SHA3_256_HMAC,
        Hash::Sha3_384 => KeyType::SHA3_384_HMAC,
        Hash::Sha3_512 => KeyType::SHA3_512_HMAC,
        Hash::Blake2b160 => KeyType::BLAKE2B_160_HMAC,
        Hash::Blake2b256 => KeyType::BLAKE2B_256_HMAC,
        Hash::Blake2b384 => KeyType::BLAKE2B_384_HMAC,
        Hash::Blake2b512 => KeyType::BLAKE2B_512_HMAC,
        Hash::Shake128 | Hash::Shake256 => return None,
    })
}
