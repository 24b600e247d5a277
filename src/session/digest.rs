//! The engine of digests, and the digest functions.

use super::operation::{Absorb, Engine, Operation, Output, Parts, Resume, place, save_hasher};
use super::progress::Progress;
use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};

/// The engine of a digest.
pub struct Digesting {
    provider: &'static Provider,
    hash: Hash,
    hasher: Option<Box<dyn Hasher>>,
}

impl Digesting {
    /// Returns a digest with this hash, without data.
    pub(crate) fn new(provider: &'static Provider, hash: Hash) -> Self {
        Self { provider, hash, hasher: None }
    }
}

impl Absorb for Digesting {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        if self.hasher.is_none() {
            self.hasher = Some(self.provider.digest.start(self.hash)?);
        }
        self.hasher.as_mut().map_or(Err(Error::GeneralError), |hasher| hasher.update(data))
    }
}

impl Engine for Digesting {
    fn forget(&mut self) {
        if self.hasher.as_mut().is_some_and(|hasher| hasher.reset().is_err()) {
            self.hasher = None;
        }
    }
}

impl Resume for Digesting {
    fn save(&self) -> Result<Progress> {
        save_hasher(self.hasher.as_deref())
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        let Progress::Hasher(hasher) = progress else { return Err(Error::SavedStateInvalid) };
        self.hasher = hasher.as_ref().map(|hasher| hasher.duplicate()).transpose()?;
        Ok(())
    }
}

impl Operation<Digesting> {
    /// `C_Digest`. PKCS#11 3.2, C_Digest: a call "always terminates the active digest operation",
    /// also if it comes between the parts of a message.
    pub fn digest(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.digest_in_one(data, out).inspect_err(|error| {
            if *error == Error::OperationActive {
                self.cancel();
            }
        })
    }

    fn digest_in_one(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else { return self.length(Parts::Single, |engine| engine.hash.len()) };
        self.once(|engine| {
            let place = place(out, engine.hash.len())?;
            engine.provider.digest.hash(engine.hash, data, place).map(|()| place.len())
        })
    }

    /// `C_DigestFinal`
    pub fn digest_final(&mut self, out: Output<'_>) -> Result<usize> {
        let Output::Buffer(out) = out else {
            return self.length(Parts::Multiple, |engine| engine.hash.len());
        };
        self.end(|engine| {
            let place = place(out, engine.hash.len())?;
            match &mut engine.hasher {
                Some(hasher) => hasher.finish(place),
                None => engine.provider.digest.hash(engine.hash, &[], place),
            }
            .map(|()| place.len())
        })
    }
}
