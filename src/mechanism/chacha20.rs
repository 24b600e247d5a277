//! ChaCha20 and ChaCha20-Poly1305 (PKCS#11 3.2, "ChaCha20", "ChaCha20/Poly1305 and
//! Salsa20/Poly1305").

use super::flow::{KeyFlow, Wrapping};
use super::{Action, CRYPTS_MESSAGES, MechanismRow, Shape, Wraps};
use crate::backend::{AeadScheme, CipherMode as Mode};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, UNWRAP, WRAP};

const CIPHER: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;
/// Sizes of a key in bits.
const BITS: (u64, u64) = (256, 256);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::Generate, M::CHACHA20_KEY_GEN, KeyType::CHACHA20, BITS),
    mode(M::CHACHA20, CIPHER, Mode::ChaCha20, Wrapping::Unauthenticated),
    mode(M::CHACHA20_POLY1305, CIPHER | CRYPTS_MESSAGES, Mode::Aead(POLY1305), Wrapping::Aead(POLY1305)),
];

const POLY1305: AeadScheme = AeadScheme::ChaCha20Poly1305;

const fn mode(id: M, flags: u64, mode: Mode, wrapping: Wrapping) -> MechanismRow {
    MechanismRow {
        id,
        flags,
        flow: KeyFlow::Wraps(wrapping),
        wraps: Wraps::Any,
        sizes: BITS,
        key_type: Some(KeyType::CHACHA20),
        shape: Shape::Cipher(mode),
        action: Action::Cipher(mode),
        ..MechanismRow::BASE
    }
}
