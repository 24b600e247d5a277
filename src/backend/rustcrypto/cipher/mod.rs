//! Symmetric ciphers: AES in its modes and ChaCha20.
//!
//! The modes are composed here from the crates' block cipher, keystream and universal hashes. No
//! crate supports counters of any width, ciphertext stealing, GCM with every nonce and tag length,
//! or key wraps with the caller's initial value.

mod aead;
mod blocks;
mod ctr;
mod message;
mod stream;
mod whole;
mod wrap;

pub(super) use aead::Gcm;

use super::aes::Aes;
use super::clean::Clean;
use crate::backend::{Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Direction, des3};
use crate::error::{Error, Result};

pub(super) struct AllCiphers;

impl Ciphers for AllCiphers {
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
        Ok(Box::new(Clean::new(cipher(scheme, direction, key)?)))
    }

    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>> {
        Ok(Box::new(Clean::new(message::aead(scheme, key)?)))
    }
}

/// Builds the cipher for [`Ciphers::cipher`], without the wrapper that wipes the stack.
fn cipher(scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
    use CipherScheme as S;
    match scheme {
        S::AesEcb => Ok(Box::new(blocks::Blocks::ecb(Aes::new(key)?, direction))),
        S::AesCbc { iv, padded } => Ok(Box::new(blocks::Blocks::cbc(Aes::new(key)?, direction, iv, *padded))),
        S::AesCts { iv } => Ok(Box::new(blocks::Blocks::cts(Aes::new(key)?, direction, iv))),
        S::AesXts { tweak } => Ok(Box::new(blocks::Blocks::xts(key, direction, tweak)?)),
        S::AesCtr { block, bits } => {
            Ok(Box::new(stream::Stream(stream::Ctr::new(Aes::new(key)?, block, *bits)?)))
        }
        S::AesOfb { iv } => Ok(Box::new(stream::Stream(stream::Ofb::new(Aes::new(key)?, iv)))),
        S::AesCfb { iv, bits: 1 } => {
            Ok(Box::new(stream::Stream(stream::Cfb1::new(Aes::new(key)?, direction, iv))))
        }
        S::AesCfb { iv, bits } => {
            Ok(Box::new(stream::Stream(stream::Cfb::new(Aes::new(key)?, direction, iv, *bits)?)))
        }
        S::ChaCha20 { nonce, counter } => stream::chacha20(key, nonce, *counter),
        S::AesGcm { iv, aad, tag_len } => {
            let gcm = Gcm::new(Aes::new(key)?, iv, aad, *tag_len)?;
            Ok(Box::new(whole::Collected::new(gcm, direction)))
        }
        S::AesCcm { nonce, aad, tag_len, data_len } => {
            let ccm = aead::Ccm::new(Aes::new(key)?, nonce, aad, *tag_len, *data_len)?;
            Ok(Box::new(whole::Collected::new(ccm, direction)))
        }
        S::ChaCha20Poly1305 { nonce, aad } => {
            let aead = aead::ChaChaPoly::new(key, nonce, aad.clone())?;
            Ok(Box::new(whole::Collected::new(aead, direction)))
        }
        S::Des3Ecb => des3::cipher(key, None, false, direction),
        S::Des3Cbc { iv, padded } => des3::cipher(key, Some(*iv), *padded, direction),
        S::AesKw { iv } => Ok(Box::new(whole::Collected::new(wrap::Kw::new(Aes::new(key)?, *iv), direction))),
        S::AesKwp { iv } => {
            Ok(Box::new(whole::Collected::new(wrap::Kwp::new(Aes::new(key)?, *iv), direction)))
        }
    }
}

/// Returns the error for a message length that the mode does not support.
fn wrong_len(direction: Direction) -> Error {
    match direction {
        Direction::Encrypt => Error::DataLenRange,
        Direction::Decrypt => Error::EncryptedDataLenRange,
    }
}
