//! Ciphers that collect the whole message and write all output at the end. Decrypted data is secret
//! until its tag is verified. CCM must know the length. XTS treats the last two blocks differently.

use super::super::ffi::{AeadCtx, CipherCtx, Mode};
use super::BLOCK;
use super::message::{self, ccm_open, ccm_seal, check_ccm, open_at_once};
use crate::backend::modes::{Whole, collected, within_unit, wrong_len};
use crate::backend::{AeadScheme, Cipher, CipherScheme, Direction, Nonce, output};
use crate::error::{Error, Result};

/// Returns the length of the input after a tag is removed from its end or added there.
fn tagged_len(input: usize, tag_len: usize, direction: Direction) -> Result<usize> {
    match direction {
        Direction::Encrypt => input.checked_add(tag_len),
        Direction::Decrypt => input.checked_sub(tag_len),
    }
    .ok_or(wrong_len(direction))
}

pub(super) fn gcm_open(key: &[u8], iv: &[u8], aad: &[u8], tag_len: usize) -> Result<Box<dyn Cipher>> {
    AeadScheme::AesGcm.check(iv.len(), tag_len)?;
    let context = CipherCtx::gcm(key, iv.len(), Direction::Decrypt)?;
    let at_once = AeadCtx::aes_gcm(key)?;
    collected(GcmOpen { context, at_once, iv: iv.into(), aad: aad.into(), tag_len })
}

/// Sets another parameter. Returns false if the length of the initialisation vector changes, which
/// the context cannot do.
pub(super) fn renew_gcm(
    scheme: &CipherScheme,
    iv: &mut Nonce,
    aad: &mut Box<[u8]>,
    tag_len: &mut usize,
) -> Result<bool> {
    let CipherScheme::Aead { cipher: AeadScheme::AesGcm, nonce: new, aad: data, tag_len: tag, .. } = scheme
    else {
        return Ok(false);
    };
    AeadScheme::AesGcm.check(new.len(), *tag)?;
    if new.len() != iv.len() {
        return Ok(false);
    }
    iv.clone_from(new);
    aad.clone_from(data);
    *tag_len = *tag;
    Ok(true)
}

struct GcmOpen {
    context: CipherCtx,
    /// For messages with a nonce of 12 bytes and a tag of 16.
    at_once: AeadCtx,
    iv: Nonce,
    aad: Box<[u8]>,
    tag_len: usize,
}

impl Whole for GcmOpen {
    fn output_len(&self, input: usize) -> Result<usize> {
        let len = tagged_len(input, self.tag_len, Direction::Decrypt)?;
        if AeadScheme::AesGcm.takes_message(len) { Ok(len) } else { Err(Error::EncryptedDataLenRange) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = output(out, len)?;
        let (ciphertext, tag) = input.split_at(len);
        match (self.iv.as_array(), tag.len()) {
            (Some(nonce), AeadCtx::TAG_LEN) => {
                open_at_once(&self.at_once, nonce, &self.aad, ciphertext, tag, out)
            }
            _ => message::gcm_open(&mut self.context, &self.iv, &self.aad, ciphertext, tag, out),
        }?;
        Ok(len)
    }

    fn renew(&mut self, scheme: &CipherScheme) -> Result<bool> {
        renew_gcm(scheme, &mut self.iv, &mut self.aad, &mut self.tag_len)
    }
}

pub(super) struct CcmParams<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) tag_len: usize,
    pub(super) data_len: usize,
}

pub(super) fn ccm(key: &[u8], params: CcmParams<'_>, direction: Direction) -> Result<Box<dyn Cipher>> {
    let CcmParams { nonce, aad, tag_len, data_len } = params;
    check_ccm(nonce, aad, tag_len, data_len)?;
    let context = CipherCtx::ccm(key, nonce.len(), tag_len, direction)?;
    collected(Ccm { context, nonce: nonce.into(), aad: aad.into(), tag_len, data_len, direction })
}

struct Ccm {
    context: CipherCtx,
    nonce: Box<[u8]>,
    aad: Box<[u8]>,
    tag_len: usize,
    data_len: usize,
    direction: Direction,
}

impl Whole for Ccm {
    fn output_len(&self, input: usize) -> Result<usize> {
        let (taken, given) = match self.direction {
            Direction::Encrypt => (self.data_len, self.data_len + self.tag_len),
            Direction::Decrypt => (self.data_len + self.tag_len, self.data_len),
        };
        if input == taken { Ok(given) } else { Err(wrong_len(self.direction)) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = output(out, len)?;
        match self.direction {
            Direction::Encrypt => {
                let (ciphertext, tag) = out.split_at_mut(self.data_len);
                ccm_seal(&mut self.context, &self.nonce, &self.aad, input, ciphertext, tag)
            }
            Direction::Decrypt => {
                let (ciphertext, tag) = input.split_at(self.data_len);
                ccm_open(&mut self.context, &self.nonce, &self.aad, ciphertext, tag, out)
            }
        }?;
        Ok(len)
    }
}

pub(super) fn chacha20_poly1305(
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    direction: Direction,
) -> Result<Box<dyn Cipher>> {
    let nonce = nonce.as_array().ok_or(Error::MechanismParamInvalid)?;
    let context = AeadCtx::chacha20_poly1305(key.as_array().ok_or(Error::KeySizeRange)?)?;
    collected(Poly1305 { context, nonce: *nonce, aad: aad.into(), direction })
}

struct Poly1305 {
    context: AeadCtx,
    nonce: [u8; 12],
    aad: Box<[u8]>,
    direction: Direction,
}

impl Whole for Poly1305 {
    fn output_len(&self, input: usize) -> Result<usize> {
        let len = tagged_len(input, AeadCtx::TAG_LEN, self.direction)?;
        let fits = AeadScheme::ChaCha20Poly1305.takes_message(input.min(len));
        if fits { Ok(len) } else { Err(wrong_len(self.direction)) }
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        let out = output(out, len)?;
        match self.direction {
            Direction::Encrypt => {
                let (ciphertext, tag) = out.split_last_chunk_mut().ok_or(Error::GeneralError)?;
                self.context.seal(&self.nonce, &self.aad, input, ciphertext, tag)?;
            }
            Direction::Decrypt => {
                let (ciphertext, tag) = input.split_at(len);
                open_at_once(&self.context, &self.nonce, &self.aad, ciphertext, tag, out)?;
            }
        }
        Ok(len)
    }
}

/// Builds XTS from a key of 64 bytes.
pub(super) fn xts256(key: &[u8], tweak: [u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let context = CipherCtx::new(Mode::Xts, key, direction)?;
    collected(Xts256 { context, tweak, direction })
}

struct Xts256 {
    context: CipherCtx,
    tweak: [u8; BLOCK],
    direction: Direction,
}

impl Whole for Xts256 {
    fn output_len(&self, input: usize) -> Result<usize> {
        within_unit(self.direction, input).map(|()| input)
    }

    fn process(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.output_len(input.len())?;
        self.context.start(&self.tweak)?;
        self.context.update(input, output(out, len)?)?;
        Ok(len)
    }
}
