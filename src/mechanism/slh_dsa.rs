//! SLH-DSA (PKCS#11 3.2, "SLH-DSA").

use super::{Action, MechanismRow, Primitive, Shape};
use crate::backend::Hash;
use crate::id::{KeyType, MechanismType as M};

/// PKCS#11 3.2, "SLH-DSA mechanisms": sizes are those of the public key in bytes.
const PUBLIC_BYTES: (u64, u64) = (32, 64);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::SLH_DSA_KEY_PAIR_GEN, KeyType::SLH_DSA, PUBLIC_BYTES),
    signs(M::SLH_DSA, Shape::SignContext, Primitive::SlhDsa, None),
    signs(M::HASH_SLH_DSA, Shape::HashSignContext, Primitive::HashSlhDsa, None),
    signs(M::HASH_SLH_DSA_SHA224, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha224)),
    signs(M::HASH_SLH_DSA_SHA256, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha256)),
    signs(M::HASH_SLH_DSA_SHA384, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha384)),
    signs(M::HASH_SLH_DSA_SHA512, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha512)),
    signs(M::HASH_SLH_DSA_SHA3_224, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha3_224)),
    signs(M::HASH_SLH_DSA_SHA3_256, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha3_256)),
    signs(M::HASH_SLH_DSA_SHA3_384, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha3_384)),
    signs(M::HASH_SLH_DSA_SHA3_512, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Sha3_512)),
    signs(M::HASH_SLH_DSA_SHAKE128, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Shake128)),
    signs(M::HASH_SLH_DSA_SHAKE256, Shape::SignContext, Primitive::HashSlhDsa, Some(Hash::Shake256)),
];

const fn signs(id: M, shape: Shape, primitive: Primitive, hash: Option<Hash>) -> MechanismRow {
    MechanismRow::signs(id, KeyType::SLH_DSA, PUBLIC_BYTES, shape, Action::Sign(primitive, hash))
}
