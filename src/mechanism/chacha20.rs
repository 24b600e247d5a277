//! ChaCha20 and ChaCha20-Poly1305 (PKCS#11 3.2, "ChaCha20", "ChaCha20/Poly1305 and
//! Salsa20/Poly1305").

use super::flow::Wrapping;
use super::row::{CRYPTS_MESSAGES, aead_of};
use super::{Action, MechanismRow};
use crate::id::{KeyType, MechanismType as M};

/// Sizes of a key in bytes, the unit of "ChaCha20 key generation".
const BYTES: (u64, u64) = (32, 32);
/// Sizes of a key in bits, the unit of the ciphers.
const BITS: (u64, u64) = (256, 256);

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::Generate, M::CHACHA20_KEY_GEN, KeyType::CHACHA20, BYTES),
    encrypts(M::CHACHA20, Wrapping::Unauthenticated),
    encrypts(M::CHACHA20_POLY1305, Wrapping::Aead(aead_of(M::CHACHA20_POLY1305))).also(CRYPTS_MESSAGES),
];

const fn encrypts(id: M, wrapping: Wrapping) -> MechanismRow {
    MechanismRow::encrypts(id, KeyType::CHACHA20, BITS, wrapping)
}
