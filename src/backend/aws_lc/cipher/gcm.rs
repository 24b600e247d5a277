//! GCM encryption of one message, in one part or several. Decryption returns nothing before the tag
//! is verified, so it is in `message.rs`, with the messages of GCM.

use super::super::ffi::{AeadCtx, CipherCtx};
use crate::backend::api::{AeadScheme, Cipher, Direction, Nonce, Renewal, SavedCipher, in_parts, output};
use crate::backend::shared::tagged::renew_gcm;
use crate::error::{Error, Result, require};

pub(super) fn seal(key: &[u8], iv: &[u8], aad: &[u8], tag_len: usize) -> Result<Box<dyn Cipher>> {
    AeadScheme::AesGcm.check(iv.len(), tag_len)?;
    let context = CipherCtx::gcm(key, iv.len(), Direction::Encrypt)?;
    let at_once = Some(AeadCtx::aes_gcm(key)?);
    let (iv, aad) = (iv.into(), aad.into());
    Ok(Box::new(GcmSeal { context, at_once, iv, aad, tag_len, started: false, taken: 0 }))
}

struct GcmSeal {
    context: CipherCtx,
    /// Encrypts a message in a single part if the nonce has 12 bytes and the tag has 16. `None` in
    /// a copy of a running cipher.
    at_once: Option<AeadCtx>,
    iv: Nonce,
    aad: Box<[u8]>,
    tag_len: usize,
    /// Whether the context already has the initialisation vector and the authenticated data of this
    /// message.
    started: bool,
    taken: usize,
}

impl GcmSeal {
    fn start(&mut self) -> Result<()> {
        if !self.started {
            self.context.start(&self.iv)?;
            self.context.authenticate(&self.aad)?;
            self.started = true;
        }
        Ok(())
    }
}

impl Cipher for GcmSeal {
    fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let out = output(out, input.len())?;
        let taken = self.taken.saturating_add(input.len());
        require(AeadScheme::AesGcm.takes_message(taken), Error::DataLenRange)?;
        self.start()?;
        self.context.update(input, out)?;
        self.taken = taken;
        Ok(input.len())
    }

    fn finish_len(&self) -> usize {
        self.tag_len
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<usize> {
        let out = output(out, self.tag_len)?;
        self.start()?;
        self.context.gcm_tag(out)?;
        self.reset()?;
        Ok(self.tag_len)
    }

    fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        if let (Some(cipher), Some(nonce), AeadCtx::TAG_LEN, false) =
            (&self.at_once, self.iv.as_array(), self.tag_len, self.started)
            && AeadScheme::AesGcm.takes_message(input.len())
        {
            let (out, tag) = output(out, input.len() + AeadCtx::TAG_LEN)?.split_at_mut(input.len());
            let tag = tag.as_mut_array().ok_or(Error::GeneralError)?;
            cipher.seal(nonce, &self.aad, input, out, tag)?;
            return Ok(input.len() + AeadCtx::TAG_LEN);
        }
        in_parts(self, input, out)
    }

    fn reset(&mut self) -> Result<()> {
        self.taken = 0;
        self.started = false;
        Ok(())
    }

    fn renew(&mut self, new: Renewal<'_>) -> Result<bool> {
        self.reset()?;
        renew_gcm(new, &mut self.iv, &mut self.aad, self.tag_len)
    }

    fn save(&self) -> Result<SavedCipher> {
        Ok(SavedCipher::Running(Box::new(Self {
            context: self.context.duplicate()?,
            at_once: None,
            iv: self.iv.clone(),
            aad: self.aad.clone(),
            ..*self
        })))
    }
}
