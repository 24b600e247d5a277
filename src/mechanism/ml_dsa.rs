//! ML-DSA (PKCS#11 3.2, "ML-DSA").

use super::{Action, Mechanism, Primitive, Shape};
use crate::backend::MlDsa;
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{GENERATE_KEY_PAIR, SIGN, VERIFY};
use crate::id::value::{ML_DSA_44, ML_DSA_65, ML_DSA_87};

/// PKCS#11 3.2, "ML-DSA mechanisms": sizes are those of the public key in bytes.
const PUBLIC_BYTES: (u64, u64) = (MlDsa::MlDsa44.public_len() as u64, MlDsa::MlDsa87.public_len() as u64);

pub(super) const ROWS: &[Mechanism] = &[
    Mechanism {
        id: M::ML_DSA_KEY_PAIR_GEN,
        flags: GENERATE_KEY_PAIR,
        sizes: PUBLIC_BYTES,
        key_type: Some(KeyType::ML_DSA),
        shape: Shape::None,
        action: Action::GeneratePair,
    },
    Mechanism {
        id: M::ML_DSA,
        flags: SIGN | VERIFY,
        sizes: PUBLIC_BYTES,
        key_type: Some(KeyType::ML_DSA),
        shape: Shape::SignContext,
        action: Action::Sign(Primitive::MlDsa, None),
    },
];

/// `CKP_ML_DSA_*`.
pub(super) const fn number(set: MlDsa) -> u64 {
    match set {
        MlDsa::MlDsa44 => ML_DSA_44,
        MlDsa::MlDsa65 => ML_DSA_65,
        MlDsa::MlDsa87 => ML_DSA_87,
    }
}
