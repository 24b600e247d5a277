//! Authenticated ciphers for a sequence of messages. A cipher keeps its context, which contains the
//! key. An AES cipher builds a new context only if the length of the nonce, the length of the tag
//! or the direction changes.

use jeton_secret::Secret;

use super::super::ffi::{AeadCtx, CipherCtx};
use crate::backend::api::{Aead, AeadScheme, Direction};
use crate::error::{Error, Result, require};

pub(super) fn gcm(key: &[u8]) -> Result<Box<dyn Aead>> {
    Ok(Box::new(Gcm { kept: Kept::new(key)?, at_once: AeadCtx::aes_gcm(key)? }))
}

pub(super) fn ccm(key: &[u8]) -> Result<Box<dyn Aead>> {
    Ok(Box::new(Ccm(Kept::new(key)?)))
}

pub(super) fn chacha20_poly1305(key: &[u8]) -> Result<Box<dyn Aead>> {
    Ok(Box::new(Poly1305(AeadCtx::chacha20_poly1305(key.as_array().ok_or(Error::KeySizeRange)?)?)))
}

pub(super) fn seal_gcm(key: &[u8], aad: &[u8], input: &[u8]) -> Result<Vec<u8>> {
    let context = AeadCtx::aes_256_gcm_with_own_nonces(key.as_array().ok_or(Error::KeySizeRange)?)?;
    let len = AeadCtx::NONCE_LEN + input.len();
    // The library writes the nonce after the tag.
    let mut sealed = vec![0; len + AeadCtx::TAG_LEN + AeadCtx::NONCE_LEN];
    let (start, tag) = sealed.split_at_mut(len);
    context.scatter(&[], aad, input, &mut start[AeadCtx::NONCE_LEN..], tag)?;
    start[..AeadCtx::NONCE_LEN].copy_from_slice(&tag[AeadCtx::TAG_LEN..]);
    sealed.truncate(len + AeadCtx::TAG_LEN);
    Ok(sealed)
}

/// An AES key, and the context that was last built from it.
struct Kept {
    key: Secret,
    last: Option<(Made, CipherCtx)>,
}

/// The lengths and direction that a context is built for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Made {
    nonce_len: usize,
    tag_len: usize,
    direction: Direction,
}

impl Kept {
    fn new(key: &[u8]) -> Result<Self> {
        match key.len() {
            16 | 24 | 32 => Ok(Self { key: key.into(), last: None }),
            _ => Err(Error::KeySizeRange),
        }
    }

    fn context(
        &mut self,
        made: Made,
        make: impl FnOnce(&[u8], Made) -> Result<CipherCtx>,
    ) -> Result<&mut CipherCtx> {
        let kept = self.last.take().filter(|(last, _)| *last == made);
        let kept = match kept {
            Some(kept) => kept,
            None => (made, make(&self.key, made)?),
        };
        Ok(&mut self.last.insert(kept).1)
    }
}

struct Gcm {
    kept: Kept,
    /// For messages with a nonce of 12 bytes and a tag of 16.
    at_once: AeadCtx,
}

impl Gcm {
    fn context(&mut self, nonce: &[u8], tag_len: usize, direction: Direction) -> Result<&mut CipherCtx> {
        AeadScheme::AesGcm.check(nonce.len(), tag_len)?;
        let made = Made { nonce_len: nonce.len(), tag_len, direction };
        self.kept.context(made, |key, made| CipherCtx::gcm(key, made.nonce_len, made.direction))
    }
}

impl Aead for Gcm {
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        require(AeadScheme::AesGcm.takes_message(input.len()), Error::DataLenRange)?;
        if let (Some(nonce), Some(tag)) = (nonce.as_array(), tag.as_mut_array()) {
            return self.at_once.seal(nonce, aad, input, out, tag);
        }
        let context = self.context(nonce, tag.len(), Direction::Encrypt)?;
        context.start(nonce)?;
        context.authenticate(aad)?;
        context.update(input, out)?;
        context.gcm_tag(tag)
    }

    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        require(AeadScheme::AesGcm.takes_message(input.len()), Error::EncryptedDataLenRange)?;
        if let (Some(nonce), AeadCtx::TAG_LEN) = (nonce.as_array(), tag.len()) {
            return open_at_once(&self.at_once, nonce, aad, input, tag, out);
        }
        let context = self.context(nonce, tag.len(), Direction::Decrypt)?;
        context.start(nonce)?;
        context.authenticate(aad)?;
        context.update(input, out)?;
        if !context.gcm_verify(tag)? {
            out.fill(0);
            return Err(Error::EncryptedDataInvalid);
        }
        Ok(())
    }
}

/// Decrypts a message in one call. If the tag is wrong, the library wipes the plaintext.
fn open_at_once(
    context: &AeadCtx,
    nonce: &[u8; AeadCtx::NONCE_LEN],
    aad: &[u8],
    input: &[u8],
    tag: &[u8],
    out: &mut [u8],
) -> Result<()> {
    if context.open(nonce, aad, input, tag, out) { Ok(()) } else { Err(Error::EncryptedDataInvalid) }
}

/// The limit of CCM in bytes: authenticated data may have this length, and a message must be
/// shorter. AWS-LC takes each in one call, with a length of type `int`.
const LONGEST_CCM: usize = 1 << 30;

pub(super) fn check_ccm(nonce: &[u8], aad: &[u8], tag_len: usize, data_len: usize) -> Result<()> {
    AeadScheme::AesCcm.check(nonce.len(), tag_len)?;
    AeadScheme::check_ccm_len(nonce.len(), data_len)?;
    let fits = data_len < LONGEST_CCM && aad.len() <= LONGEST_CCM;
    if fits { Ok(()) } else { Err(Error::MechanismParamInvalid) }
}

struct Ccm(Kept);

impl Ccm {
    fn context(&mut self, nonce: &[u8], tag_len: usize, direction: Direction) -> Result<&mut CipherCtx> {
        let made = Made { nonce_len: nonce.len(), tag_len, direction };
        self.0.context(made, |key, made| CipherCtx::ccm(key, made.nonce_len, made.tag_len, made.direction))
    }
}

impl Aead for Ccm {
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        check_ccm(nonce, aad, tag.len(), input.len())?;
        let context = self.context(nonce, tag.len(), Direction::Encrypt)?;
        context.start(nonce)?;
        context.announce(input.len())?;
        context.authenticate(aad)?;
        require(context.whole(input, out)?, Error::DeviceError)?;
        context.ccm_tag(tag)
    }

    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        check_ccm(nonce, aad, tag.len(), input.len())?;
        let context = self.context(nonce, tag.len(), Direction::Decrypt)?;
        context.start(nonce)?;
        context.expect_tag(tag)?;
        context.announce(input.len())?;
        context.authenticate(aad)?;
        // AWS-LC wipes its output if the tag is wrong.
        if context.whole(input, out)? { Ok(()) } else { Err(Error::EncryptedDataInvalid) }
    }
}

struct Poly1305(AeadCtx);

impl Aead for Poly1305 {
    fn seal(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], out: &mut [u8], tag: &mut [u8]) -> Result<()> {
        let (Some(nonce), Some(tag)) = (nonce.as_array(), tag.as_mut_array()) else {
            return Err(Error::MechanismParamInvalid);
        };
        require(AeadScheme::ChaCha20Poly1305.takes_message(input.len()), Error::DataLenRange)?;
        self.0.seal(nonce, aad, input, out, tag)
    }

    fn open(&mut self, nonce: &[u8], aad: &[u8], input: &[u8], tag: &[u8], out: &mut [u8]) -> Result<()> {
        let nonce = nonce.as_array().filter(|_| tag.len() == AeadCtx::TAG_LEN);
        let nonce = nonce.ok_or(Error::MechanismParamInvalid)?;
        require(AeadScheme::ChaCha20Poly1305.takes_message(input.len()), Error::EncryptedDataLenRange)?;
        open_at_once(&self.0, nonce, aad, input, tag, out)
    }
}
