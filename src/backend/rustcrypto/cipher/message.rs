//! Authenticated ciphers for a sequence of messages. The AES key is expanded once; each message has
//! its own nonce and additional data.

use jeton_secret::Secret;

use super::aead::{Ccm, ChaChaPoly, Detached, Gcm};
use crate::backend::api::{Aead, AeadScheme};
use crate::backend::rustcrypto::aes::Aes;
use crate::error::{Error, Result};

pub(super) fn aead(scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>> {
    Ok(Box::new(match scheme {
        AeadScheme::AesGcm => Keyed::Gcm(Aes::new(key)?),
        AeadScheme::AesCcm => Keyed::Ccm(Aes::new(key)?),
        AeadScheme::ChaCha20Poly1305 if key.len() == POLY_KEY => Keyed::Poly(key.into()),
        AeadScheme::ChaCha20Poly1305 => return Err(Error::KeySizeRange),
    }))
}

/// The length of a key of ChaCha20-Poly1305.
const POLY_KEY: usize = 32;

enum Keyed {
    Gcm(Aes),
    Ccm(Aes),
    Poly(Secret),
}

/// The nonce, the additional data and the lengths of one message.
struct Framing<'a> {
    nonce: &'a [u8],
    aad: &'a [u8],
    tag_len: usize,
    len: usize,
}

impl Keyed {
    fn with(&self, framing: &Framing<'_>, work: impl FnOnce(&dyn Detached) -> Result<()>) -> Result<()> {
        let Framing { nonce, aad, tag_len, len } = *framing;
        match self {
            Self::Gcm(aes) => work(&Gcm::new(aes.clone(), nonce, aad, tag_len)?),
            Self::Ccm(aes) => work(&Ccm::new(aes.clone(), nonce, aad, tag_len, len)?),
            Self::Poly(key) => work(&ChaChaPoly::new(key, nonce, aad, tag_len)?),
        }
    }
}

impl Aead for Keyed {
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        let framing = Framing { nonce, aad, tag_len: tag.len(), len: input.len() };
        self.with(&framing, |cipher| {
            if cipher.takes(input.len()) { cipher.seal(input, out, tag) } else { Err(Error::DataLenRange) }
        })
    }

    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        let framing = Framing { nonce, aad, tag_len: tag.len(), len: input.len() };
        self.with(&framing, |cipher| {
            if cipher.takes(input.len()) {
                cipher.open(input, tag, out)
            } else {
                Err(Error::EncryptedDataLenRange)
            }
        })
    }
}
