//! Triple DES (PKCS#11 3.2, "Double and Triple-length DES"), with triple-length keys only.

use super::flow::{KeyFlow, Wrapping};
use super::{Action, MechanismRow, Shape, Standing, Wraps};
use crate::backend::CipherMode as Mode;
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, UNWRAP, WRAP};

const CIPHER: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;
const BLOCK: usize = 8;

pub(super) const ROWS: &[MechanismRow] = &[
    row(M::DES3_KEY_GEN, GENERATE, KeyFlow::Nothing, Wraps::Nothing, Shape::None, Action::Generate),
    mode(M::DES3_ECB, Wraps::SecretWithZeros(BLOCK), Mode::Des3Ecb),
    mode(M::DES3_CBC, Wraps::SecretWithZeros(BLOCK), Mode::Des3Cbc),
    mode(M::DES3_CBC_PAD, Wraps::Any, Mode::Des3CbcPad),
];

const fn mode(id: M, wraps: Wraps, mode: Mode) -> MechanismRow {
    let flow = KeyFlow::Wraps(Wrapping::Unauthenticated);
    row(id, CIPHER, flow, wraps, Shape::Cipher(mode), Action::Cipher(mode))
}

/// Builds a row. It reports no key sizes.
const fn row(id: M, flags: u64, flow: KeyFlow, wraps: Wraps, shape: Shape, action: Action) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        key_type: Some(KeyType::DES3),
        standing: Standing::Obsolete,
        flow,
        wraps,
        shape,
        action,
        ..MechanismRow::BASE
    }
}
