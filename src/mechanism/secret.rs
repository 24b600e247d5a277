//! Secret keys (PKCS#11 3.2, "Generic secret key").

use super::{Action, KeyFlow, MechanismRow, Shape};
use crate::id::mechanism_flag::GENERATE;
use crate::id::{KeyType, MechanismType};

pub(super) const ROWS: &[MechanismRow] = &[
    // PKCS#11 3.2, "Generic secret key generation": sizes are in bits.
    generates(MechanismType::GENERIC_SECRET_KEY_GEN, KeyType::GENERIC_SECRET, (8, 32768)),
];

const fn generates(id: MechanismType, key_type: KeyType, sizes: (u64, u64)) -> MechanismRow {
    MechanismRow {
        id,
        flags: GENERATE,
        sizes,
        key_type: Some(key_type),
        shape: Shape::None,
        flow: KeyFlow::Nothing,
        action: Action::Generate,
        ..MechanismRow::BASE
    }
}
