//! SLH-DSA (PKCS#11 3.2, "SLH-DSA").

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow, Primitive, SIGNS, Shape};
use crate::backend::Hash;
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::GENERATE_KEY_PAIR;

pub(super) const ROWS: &[MechanismRow] = &[
    row(M::SLH_DSA_KEY_PAIR_GEN, GENERATE_KEY_PAIR, Shape::None, Action::GeneratePair),
    row(M::SLH_DSA, SIGNS, Shape::SignContext, Action::Sign(Primitive::SlhDsa, None)),
    row(M::HASH_SLH_DSA, SIGNS, Shape::HashSignContext, Action::Sign(Primitive::HashSlhDsa, None)),
    row(
        M::HASH_SLH_DSA_SHA224,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha224)),
    ),
    row(
        M::HASH_SLH_DSA_SHA256,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha256)),
    ),
    row(
        M::HASH_SLH_DSA_SHA384,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha384)),
    ),
    row(
        M::HASH_SLH_DSA_SHA512,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha512)),
    ),
    row(
        M::HASH_SLH_DSA_SHA3_224,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha3_224)),
    ),
    row(
        M::HASH_SLH_DSA_SHA3_256,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha3_256)),
    ),
    row(
        M::HASH_SLH_DSA_SHA3_384,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha3_384)),
    ),
    row(
        M::HASH_SLH_DSA_SHA3_512,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Sha3_512)),
    ),
    row(
        M::HASH_SLH_DSA_SHAKE128,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Shake128)),
    ),
    row(
        M::HASH_SLH_DSA_SHAKE256,
        SIGNS,
        Shape::SignContext,
        Action::Sign(Primitive::HashSlhDsa, Some(Hash::Shake256)),
    ),
];

/// Builds a row. PKCS#11 3.2, "SLH-DSA mechanisms": the sizes are those of the public key in bytes.
const fn row(id: M, flags: u64, shape: Shape, action: Action) -> MechanismRow {
    let signs = matches!(action, Action::Sign(..));
    MechanismRow {
        id,
        flags,
        sizes: (32, 64),
        key_type: Some(KeyType::SLH_DSA),
        flow: if signs { KeyFlow::Signs(Flow::OneWay) } else { KeyFlow::Nothing },
        shape,
        action,
        ..MechanismRow::BASE
    }
}
