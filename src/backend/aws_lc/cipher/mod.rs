//! Symmetric ciphers: the checks of their parameters, and the time when each may write output.
//!
//! There are three types of cipher. A [stream](stream) writes output for all its input at once.
//! [Blocks](blocks) hold back an incomplete block. A cipher for [whole messages](whole) must see
//! the end of the message first.

mod blocks;
mod message;
mod stream;
mod whole;
mod wrap;

use super::ffi::Mode;
use crate::backend::{Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Direction, des3};
use crate::error::{Error, Result};

const BLOCK: usize = 16;

pub(super) struct Symmetric;

impl Ciphers for Symmetric {
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
        use CipherScheme as S;
        let encrypt = direction == Direction::Encrypt;
        match scheme {
            S::AesEcb => blocks::plain(Mode::Ecb, key, &[], direction),
            S::AesCbc { iv, padded: false } => blocks::plain(Mode::Cbc, key, iv, direction),
            S::AesCbc { iv, padded: true } => blocks::padded(key, iv, direction),
            S::AesCts { iv } => blocks::stealing(key, iv, direction),
            S::AesCtr { block, bits } => stream::counter(key, block, *bits),
            S::AesOfb { iv } => stream::plain(Mode::Ofb, key, iv, encrypt),
            S::AesCfb { iv, bits: 1 } => stream::plain(Mode::Cfb1, key, iv, encrypt),
            S::AesCfb { iv, bits: 8 } => stream::plain(Mode::Cfb8, key, iv, encrypt),
            S::AesCfb { iv, bits: 64 } => blocks::feedback64(key, iv, direction),
            S::AesCfb { iv, bits: 128 } => stream::plain(Mode::Cfb128, key, iv, encrypt),
            S::AesCfb { .. } => Err(Error::MechanismParamInvalid),
            S::AesXts { tweak } => whole::xts(key, tweak, direction),
            S::AesGcm { iv, aad, tag_len } if encrypt => stream::gcm_seal(key, iv, aad, *tag_len),
            S::AesGcm { iv, aad, tag_len } => whole::gcm_open(key, iv, aad, *tag_len),
            S::AesCcm { nonce, aad, tag_len, data_len } => whole::ccm(
                key,
                whole::CcmParams { nonce, aad, tag_len: *tag_len, data_len: *data_len },
                direction,
            ),
            S::Des3Ecb => des3::cipher(key, None, false, direction),
            S::Des3Cbc { iv, padded } => des3::cipher(key, Some(*iv), *padded, direction),
            S::AesKw { iv } => wrap::kw(key, *iv, direction),
            S::AesKwp { iv } => wrap::kwp(key, *iv, direction),
            S::ChaCha20 { nonce, counter } => stream::chacha20(key, nonce, *counter),
            S::ChaCha20Poly1305 { nonce, aad } => whole::chacha20_poly1305(key, nonce, aad, direction),
        }
    }

    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>> {
        match scheme {
            AeadScheme::AesGcm => message::gcm(key),
            AeadScheme::AesCcm => message::ccm(key),
            AeadScheme::ChaCha20Poly1305 => message::chacha20_poly1305(key),
        }
    }
}

/// Returns the error for a message length that the cipher does not support.
fn length_error(direction: Direction) -> Error {
    match direction {
        Direction::Encrypt => Error::DataLenRange,
        Direction::Decrypt => Error::EncryptedDataLenRange,
    }
}

/// Checks the lengths of SP 800-38D, 5.2.1.2, and the limit of PKCS#11 on initialisation vectors.
fn gcm_lengths(iv: &[u8], tag_len: usize) -> Result<()> {
    if AeadScheme::AesGcm.takes(iv.len(), tag_len) { Ok(()) } else { Err(Error::MechanismParamInvalid) }
}

#[cfg(test)]
mod tests;
