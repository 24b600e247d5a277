//! One-time passwords (PKCS#11 3.2, "OATH HOTP"; RFC 4226).

use super::flow::{Flow, KeyFlow};
use super::{Action, MechanismRow, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{GENERATE, SIGN, VERIFY};

pub(super) const ROWS: &[MechanismRow] = &[
    // RFC 4226, 4, R6: a shared secret has at least 128 bits. Imported keys may be shorter.
    hotp(M::HOTP_KEY_GEN, GENERATE, (16, 4096), KeyFlow::Nothing, Shape::None, Action::Generate),
    hotp(M::HOTP, SIGN | VERIFY, (1, 4096), KeyFlow::Signs(Flow::OneWay), Shape::Otp, Action::Otp),
];

/// Builds a row. The sizes are those of a key in bytes.
const fn hotp(
    id: M,
    flags: u64,
    sizes: (u64, u64),
    flow: KeyFlow,
    shape: Shape,
    action: Action,
) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        sizes,
        key_type: Some(KeyType::HOTP),
        flow,
        shape,
        action,
        ..MechanismRow::BASE
    }
}
