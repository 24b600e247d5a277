//! SLH-DSA (PKCS#11 3.2, "SLH-DSA").

use super::{Action, MechanismRow, Primitive};
use crate::backend::Hash;
use crate::id::{KeyType, MechanismType as M};

/// PKCS#11 3.2, "SLH-DSA mechanisms": sizes are those of the public key in bytes.
const PUBLIC_BYTES: (u64, u64) = (32, 64);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::SLH_DSA_KEY_PAIR_GEN, KeyType::SLH_DSA, PUBLIC_BYTES),
    signs(M::SLH_DSA, Primitive::SlhDsa, None),
    signs(M::HASH_SLH_DSA, Primitive::HashSlhDsa, None),
    signs(M::HASH_SLH_DSA_SHA224, Primitive::HashSlhDsa, Some(Hash::Sha224)),
    signs(M::HASH_SLH_DSA_SHA256, Primitive::HashSlhDsa, Some(Hash::Sha256)),
    signs(M::HASH_SLH_DSA_SHA384, Primitive::HashSlhDsa, Some(Hash::Sha384)),
    signs(M::HASH_SLH_DSA_SHA512, Primitive::HashSlhDsa, Some(Hash::Sha512)),
    signs(M::HASH_SLH_DSA_SHA3_224, Primitive::HashSlhDsa, Some(Hash::Sha3_224)),
    signs(M::HASH_SLH_DSA_SHA3_256, Primitive::HashSlhDsa, Some(Hash::Sha3_256)),
    signs(M::HASH_SLH_DSA_SHA3_384, Primitive::HashSlhDsa, Some(Hash::Sha3_384)),
    signs(M::HASH_SLH_DSA_SHA3_512, Primitive::HashSlhDsa, Some(Hash::Sha3_512)),
    signs(M::HASH_SLH_DSA_SHAKE128, Primitive::HashSlhDsa, Some(Hash::Shake128)),
    signs(M::HASH_SLH_DSA_SHAKE256, Primitive::HashSlhDsa, Some(Hash::Shake256)),
];

const fn signs(id: M, primitive: Primitive, hash: Option<Hash>) -> MechanismRow {
    MechanismRow::signs(id, KeyType::SLH_DSA, PUBLIC_BYTES, Action::Sign(primitive, hash))
}
