//! The input of a signer or a verifier.

use std::ops::Deref;

use jeton_secret::Secret;

use super::operation::save_hasher;
use super::progress::Progress;
use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};

/// The input of a signer or verifier: the digest of the message, or the message itself.
pub struct Message {
    provider: &'static Provider,
    hash: Option<Hash>,
    hasher: Option<Box<dyn Hasher>>,
    collected: Secret,
}

impl Message {
    /// Returns an empty message. The input is its digest by `hash`, or the message itself if `hash`
    /// is `None`.
    pub(super) fn new(provider: &'static Provider, hash: Option<Hash>) -> Self {
        Self { provider, hash, hasher: None, collected: Secret::default() }
    }

    /// Appends a part.
    pub(super) fn update(&mut self, data: &[u8]) -> Result<()> {
        let Some(hash) = self.hash else {
            return Ok(self.collected.extend(data)?);
        };
        if self.hasher.is_none() {
            self.hasher = Some(self.provider.digest.start(hash)?);
        }
        self.hasher.as_mut().map_or(Err(Error::GeneralError), |hasher| hasher.update(data))
    }

    /// Returns whether it keeps all parts.
    pub(super) fn collects(&self) -> bool {
        self.hash.is_none()
    }

    /// Discards all parts.
    pub(super) fn forget(&mut self) {
        self.collected.clear();
        if self.hasher.as_mut().is_some_and(|hasher| hasher.reset().is_err()) {
            self.hasher = None;
        }
    }

    /// Returns the state after the parts so far.
    pub(super) fn save(&self) -> Result<Progress> {
        match self.hash {
            None => Ok(Progress::Collected(Secret::try_copy(&self.collected)?)),
            Some(_) => save_hasher(self.hasher.as_deref()),
        }
    }

    /// Continues from a saved state.
    pub(super) fn resume(&mut self, progress: &Progress) -> Result<()> {
        match progress {
            Progress::Collected(message) => self.collected = Secret::try_copy(message)?,
            Progress::Hasher(hasher) => {
                self.hasher = hasher.as_ref().map(|hasher| hasher.duplicate()).transpose()?
            }
            Progress::Mac(_) | Progress::Cipher(_) => return Err(Error::SavedStateInvalid),
        }
        Ok(())
    }

    /// Returns the input for a message that comes in a single part.
    #[inline(always)]
    pub(super) fn whole<'a>(&self, data: &'a [u8]) -> Result<Input<'a>> {
        match self.hash {
            Some(hash) => self.digest(hash, data),
            None => Ok(Input::Message(data)),
        }
    }

    /// Not inlined, so that a call without a hash needs no buffer.
    #[inline(never)]
    fn digest<'a>(&self, hash: Hash, data: &[u8]) -> Result<Input<'a>> {
        Input::digest(hash, |digest| self.provider.digest.hash(hash, data, digest))
    }

    pub(super) fn parts(&mut self) -> Result<Input<'_>> {
        match (self.hash, &mut self.hasher) {
            (Some(hash), Some(hasher)) => Input::digest(hash, |digest| hasher.finish(digest)),
            (Some(_), None) => self.whole(&[]),
            (None, _) => Ok(Input::Message(&self.collected)),
        }
    }
}

/// What a signer or a verifier reads.
pub(super) enum Input<'a> {
    /// The digest of the message, and its length.
    Digest([u8; Hash::MAX_LEN], usize),
    Message(&'a [u8]),
}

impl Input<'_> {
    fn digest(hash: Hash, write: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Self> {
        let mut digest = [0; Hash::MAX_LEN];
        write(&mut digest[..hash.len()])?;
        Ok(Self::Digest(digest, hash.len()))
    }
}

impl Deref for Input<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Digest(digest, len) => &digest[..*len],
            Self::Message(message) => message,
        }
    }
}
