//! Secret keys (PKCS#11 3.2, "Generic secret key").

use super::{Action, MechanismRow};
use crate::id::{KeyType, MechanismType as M};

/// PKCS#11 3.2, "Generic secret key generation": sizes are in bits.
const BITS: (u64, u64) = (8, 32768);

pub(super) const ROWS: &[MechanismRow] =
    &[MechanismRow::generates(Action::Generate, M::GENERIC_SECRET_KEY_GEN, KeyType::GENERIC_SECRET, BITS)];
