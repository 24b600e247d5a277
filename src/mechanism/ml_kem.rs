//! ML-KEM (PKCS#11 3.2, "ML-KEM").

use super::{Action, KeyFlow, MechanismRow};
use crate::backend::MlKem;
use crate::id::mechanism_flag::{DECAPSULATE, ENCAPSULATE};
use crate::id::{KeyType, MechanismType as M};

/// PKCS#11 3.2, "ML-KEM mechanisms": the sizes are those of the public key in bytes.
const PUBLIC_BYTES: (u64, u64) = (MlKem::MlKem512.public_len() as u64, MlKem::MlKem1024.public_len() as u64);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::GeneratePair, M::ML_KEM_KEY_PAIR_GEN, KeyType::ML_KEM, PUBLIC_BYTES),
    MechanismRow {
        id: M::ML_KEM,
        flags: ENCAPSULATE | DECAPSULATE,
        sizes: PUBLIC_BYTES,
        key_type: Some(KeyType::ML_KEM),
        flow: KeyFlow::Nothing,
        action: Action::Encapsulate,
        ..MechanismRow::BASE
    },
];
