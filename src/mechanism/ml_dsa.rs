//! ML-DSA (PKCS#11 3.2, "ML-DSA"; 3.3 for the external mu).

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow, Primitive};
use crate::backend::{Hash, MlDsa};
use crate::id::mechanism_flag::DIGEST;
use crate::id::{KeyType, MechanismType as M};

/// PKCS#11 3.2, "ML-DSA mechanisms": sizes are those of the public key in bytes.
const PUBLIC_BYTES: (u64, u64) = (MlDsa::MlDsa44.public_len() as u64, MlDsa::MlDsa87.public_len() as u64);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::ML_DSA_KEY_PAIR_GEN, KeyType::ML_DSA, PUBLIC_BYTES),
    signs(M::ML_DSA, Primitive::MlDsa, None),
    MechanismRow {
        id: M::ML_DSA_EXTERNAL_MU_GEN,
        flags: DIGEST,
        sizes: PUBLIC_BYTES,
        key_type: Some(KeyType::ML_DSA),
        flow: KeyFlow::Digests(Flow::Mixed),
        action: Action::MlDsaMu,
        ..MechanismRow::BASE
    },
    signs(M::ML_DSA_EXTERNAL_MU, Primitive::MlDsaMu, None),
    signs(M::HASH_ML_DSA, Primitive::HashMlDsa, None),
    signs(M::HASH_ML_DSA_SHA224, Primitive::HashMlDsa, Some(Hash::Sha224)),
    signs(M::HASH_ML_DSA_SHA256, Primitive::HashMlDsa, Some(Hash::Sha256)),
    signs(M::HASH_ML_DSA_SHA384, Primitive::HashMlDsa, Some(Hash::Sha384)),
    signs(M::HASH_ML_DSA_SHA512, Primitive::HashMlDsa, Some(Hash::Sha512)),
    signs(M::HASH_ML_DSA_SHA3_224, Primitive::HashMlDsa, Some(Hash::Sha3_224)),
    signs(M::HASH_ML_DSA_SHA3_256, Primitive::HashMlDsa, Some(Hash::Sha3_256)),
    signs(M::HASH_ML_DSA_SHA3_384, Primitive::HashMlDsa, Some(Hash::Sha3_384)),
    signs(M::HASH_ML_DSA_SHA3_512, Primitive::HashMlDsa, Some(Hash::Sha3_512)),
    signs(M::HASH_ML_DSA_SHAKE128, Primitive::HashMlDsa, Some(Hash::Shake128)),
    signs(M::HASH_ML_DSA_SHAKE256, Primitive::HashMlDsa, Some(Hash::Shake256)),
];

const fn signs(id: M, primitive: Primitive, hash: Option<Hash>) -> MechanismRow {
    MechanismRow::signs(id, KeyType::ML_DSA, PUBLIC_BYTES, Action::Sign(primitive, hash))
}
