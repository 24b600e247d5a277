//! Key derivation from passwords (PKCS#11 3.2, "PKCS #5 and PKCS #5-style password-based
//! encryption").

use super::{Action, KeyFlow, MechanismRow};
use crate::id::MechanismType;
use crate::id::mechanism_flag::GENERATE;

pub use jeton_words::password::Password;

pub(super) const ROWS: &[MechanismRow] = &[
    // The template names the type of the generated key.
    MechanismRow {
        id: MechanismType::PKCS5_PBKD2,
        flags: GENERATE,
        sizes: (1, 4096),
        key_type: None,
        flow: KeyFlow::Nothing,
        action: Action::GenerateFromPassword,
        ..MechanismRow::BASE
    },
];
