//! One-time passwords (PKCS#11 3.2, "OATH HOTP"; RFC 4226).

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow};
use crate::id::mechanism_flag::{SIGN, VERIFY};
use crate::id::{KeyType, MechanismType as M};

/// The rows. The sizes are those of a key in bytes.
pub(super) const ROWS: &[MechanismRow] = &[
    // RFC 4226, 4, R6: a shared secret has at least 128 bits. Imported keys may be shorter.
    MechanismRow::generates(Action::Generate, M::HOTP_KEY_GEN, KeyType::HOTP, (16, 4096)),
    MechanismRow {
        id: M::HOTP,
        flags: SIGN | VERIFY,
        sizes: (1, 4096),
        key_type: Some(KeyType::HOTP),
        flow: KeyFlow::Signs(Flow::OneWay),
        action: Action::Otp,
        ..MechanismRow::BASE
    },
];
