//! The input of a signer or a verifier.

use super::operation::save_hasher;
use super::progress::Progress;
use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};
use crate::secret::Secret;

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
            return self.collected.extend(data);
        };
        if self.hasher.is_none() {
            self.hasher = Some(self.provider.digest.start(hash)?);
        }
        self.hasher.as_mut().map_or(Err(Error::GeneralError), |hasher| hasher.update(data))
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
            None => Secret::try_copy(&self.collected).map(Progress::Collected),
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

    /// Calls `work` with the input for a message that comes in a single part.
    pub(super) fn whole<T>(&self, data: &[u8], work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(data) };
        let mut digest = [0; Hash::MAX_LEN];
        self.provider.digest.hash(hash, data, &mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }

    /// Calls `work` with the input for the parts so far.
    pub(super) fn parts<T>(&mut self, work: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let Some(hash) = self.hash else { return work(&self.collected) };
        let Some(hasher) = &mut self.hasher else { return self.whole(&[], work) };
        let mut digest = [0; Hash::MAX_LEN];
        hasher.finish(&mut digest[..hash.len()])?;
        work(&digest[..hash.len()])
    }
}
