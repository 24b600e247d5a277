//! ChaCha20 and ChaCha20-Poly1305 (PKCS#11 3.2, "ChaCha20", "ChaCha20/Poly1305 and
//! Salsa20/Poly1305").

use super::flow::{KeyFlow, Wrapping};
use super::{Action, CRYPTS_MESSAGES, MechanismRow, Shape, Wraps};
use crate::backend::{AeadScheme, CipherMode as Mode};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, UNWRAP, WRAP};

const CIPHER: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;

pub(super) const ROWS: &[MechanismRow] = &[
    row(M::CHACHA20_KEY_GEN, GENERATE, KeyFlow::Nothing, Shape::None, Action::Generate),
    mode(M::CHACHA20, CIPHER, Mode::ChaCha20, Wrapping::Unauthenticated),
    mode(M::CHACHA20_POLY1305, CIPHER | CRYPTS_MESSAGES, Mode::Aead(POLY1305), Wrapping::Aead(POLY1305)),
];

const POLY1305: AeadScheme = AeadScheme::ChaCha20Poly1305;

const fn mode(id: M, flags: u64, mode: Mode, wrapping: Wrapping) -> MechanismRow {
    let flow = KeyFlow::Wraps(wrapping);
    MechanismRow { wraps: Wraps::Any, ..row(id, flags, flow, Shape::Cipher(mode), Action::Cipher(mode)) }
}

/// Builds a row. The sizes are in bits.
const fn row(id: M, flags: u64, flow: KeyFlow, shape: Shape, action: Action) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        flow,
        sizes: (256, 256),
        key_type: Some(KeyType::CHACHA20),
        shape,
        action,
        ..MechanismRow::BASE
    }
}
