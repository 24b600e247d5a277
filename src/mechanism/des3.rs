//! Triple DES (PKCS#11 3.2, "Double and Triple-length DES"), with keys of three lengths.

use super::{Action, MechanismInfo, Mode, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, UNWRAP, WRAP};

const WRAPS: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;
const BLOCK: usize = 8;

pub(super) const ROWS: &[MechanismInfo] = &[
    row(M::DES3_KEY_GEN, GENERATE, Shape::None, Action::Generate),
    row(M::DES3_ECB, WRAPS, Shape::None, Action::Cipher(Mode::Des3Ecb)),
    row(M::DES3_CBC, WRAPS, Shape::Iv(BLOCK), Action::Cipher(Mode::Des3Cbc)),
    row(M::DES3_CBC_PAD, WRAPS, Shape::Iv(BLOCK), Action::Cipher(Mode::Des3CbcPad)),
];

/// Builds a row. It reports no key sizes.
const fn row(id: M, flags: u64, shape: Shape, action: Action) -> MechanismInfo {
    MechanismInfo { id, flags, sizes: (0, 0), key_type: Some(KeyType::DES3), shape, action }
}
