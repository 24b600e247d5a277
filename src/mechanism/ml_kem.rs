//! ML-KEM (PKCS#11 3.2, "ML-KEM").

use super::{Action, KeyFlow, MechanismRow, Shape};
use crate::backend::MlKem;
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECAPSULATE, ENCAPSULATE, GENERATE_KEY_PAIR};

pub(super) const ROWS: &[MechanismRow] = &[
    row(M::ML_KEM_KEY_PAIR_GEN, GENERATE_KEY_PAIR, Action::GeneratePair),
    row(M::ML_KEM, ENCAPSULATE | DECAPSULATE, Action::Encapsulate),
];

/// Builds a row. PKCS#11 3.2, "ML-KEM mechanisms": the sizes are those of the public key in bytes.
const fn row(id: M, flags: u64, action: Action) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        sizes: (MlKem::MlKem512.public_len() as u64, MlKem::MlKem1024.public_len() as u64),
        key_type: Some(KeyType::ML_KEM),
        flow: KeyFlow::Nothing,
        shape: Shape::None,
        action,
        ..MechanismRow::BASE
    }
}
