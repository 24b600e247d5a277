//! Composite ML-DSA (draft-ietf-lamps-pq-composite-sigs). The numbers are Jeton's own. The
//! parameter is that of `CKM_ML_DSA`.

use super::{Action, MechanismRow, Primitive};
use crate::id::{KeyType, MechanismType as M};

/// The sizes of the public keys in bytes: ML-DSA-44 with Ed25519, and ML-DSA-87 with P-384.
const PUBLIC_BYTES: (u64, u64) = (1312 + 32, 2592 + 97);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(
        Action::GeneratePair,
        M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN,
        KeyType::JETON_COMPOSITE_ML_DSA,
        PUBLIC_BYTES,
    ),
    MechanismRow::signs(
        M::JETON_COMPOSITE_ML_DSA,
        KeyType::JETON_COMPOSITE_ML_DSA,
        PUBLIC_BYTES,
        Action::Sign(Primitive::Composite, None),
    ),
];
