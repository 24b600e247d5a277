//! Key derivation from passwords (PKCS#11 3.2, "PKCS #5 and PKCS #5-style password-based
//! encryption").

use jeton_secret::Secret;
use subtle::ConstantTimeEq;

use super::{Action, KeyFlow, MechanismRow, Shape};
use crate::id::MechanismType;
use crate::id::mechanism_flag::GENERATE;

pub(super) const ROWS: &[MechanismRow] = &[
    // The template names the type of the generated key.
    MechanismRow {
        id: MechanismType::PKCS5_PBKD2,
        flags: GENERATE,
        sizes: (1, 4096),
        key_type: None,
        shape: Shape::Pbkdf2,
        flow: KeyFlow::Nothing,
        action: Action::GenerateFromPassword,
        ..MechanismRow::BASE
    },
];

/// A password from a parameter. It is wiped on drop and compared in constant time.
pub struct Password(pub Secret);

impl Clone for Password {
    fn clone(&self) -> Self {
        Self(self.0.duplicate())
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Password {}
