//! ChaCha20 and ChaCha20-Poly1305 (PKCS#11 3.2, "ChaCha20", "ChaCha20/Poly1305 and
//! Salsa20/Poly1305").

use super::{Action, MechanismInfo, Mode, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, UNWRAP, WRAP};

const WRAPS: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;

pub(super) const ROWS: &[MechanismInfo] = &[
    row(M::CHACHA20_KEY_GEN, GENERATE, Shape::None, Action::Generate),
    row(M::CHACHA20, WRAPS, Shape::ChaCha20, Action::Cipher(Mode::ChaCha20)),
    row(M::CHACHA20_POLY1305, WRAPS, Shape::ChaCha20Poly1305, Action::Cipher(Mode::ChaCha20Poly1305)),
];

/// Builds a row. The sizes are in bits.
const fn row(id: M, flags: u64, shape: Shape, action: Action) -> MechanismInfo {
    MechanismInfo { id, flags, sizes: (256, 256), key_type: Some(KeyType::CHACHA20), shape, action }
}
