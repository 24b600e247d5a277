//! The engine of digests, and the digest functions.

use super::operation::{Absorb, Engine, Operation, Output, Parts, Resume, place, save_hasher};
use super::progress::Progress;
use crate::backend::{Hash, Hasher, Provider};
use crate::error::{Error, Result};

/// The engine of a digest.
pub struct Digesting {
    provider: &'static Provider,
    hash: Hash,
    /// The bytes before the message.
    prefix: Box<[u8]>,
    hasher: Option<Box<dyn Hasher>>,
    /// True if no data was processed since the caller saved or restored the state.
    saved: bool,
}

impl Digesting {
    /// Prepares a digest with this hash. The message has no data yet.
    pub(crate) fn new(provider: &'static Provider, hash: Hash) -> Self {
        Self::after(provider, hash, Box::default())
    }

    /// Prepares the message representative of ML-DSA (FIPS 204, algorithm 7, line 6, and algorithm
    /// 2, line 10). `tr` is the hash of the public key.
    pub(super) fn of_mu(provider: &'static Provider, tr: &[u8], context: &[u8]) -> Result<Self> {
        let len = u8::try_from(context.len()).map_err(|_| Error::MechanismParamInvalid)?;
        Ok(Self::after(provider, Hash::Shake256, [tr, &[0, len], context].concat().into()))
    }

    fn after(provider: &'static Provider, hash: Hash, prefix: Box<[u8]>) -> Self {
        Self { provider, hash, prefix, hasher: None, saved: false }
    }

    /// Returns the state of the message so far.
    fn hasher(&mut self) -> Result<&mut Box<dyn Hasher>> {
        if self.hasher.is_none() {
            let mut hasher = self.provider.digest.start(self.hash)?;
            hasher.update(&self.prefix)?;
            self.hasher = Some(hasher);
        }
        self.hasher.as_mut().ok_or(Error::GeneralError)
    }

    fn digest(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize> {
        let place = place(out, self.hash.len())?;
        if self.prefix.is_empty() {
            self.provider.digest.hash(self.hash, data, place)?;
        } else {
            let message = self.hasher()?;
            let outcome = message.update(data).and_then(|()| message.finish(place));
            self.forget();
            outcome?;
        }
        Ok(place.len())
    }

    fn end(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(hasher) = &mut self.hasher else { return self.digest(&[], out) };
        let place = place(out, self.hash.len())?;
        hasher.finish(place)?;
        Ok(place.len())
    }
}

impl Absorb for Digesting {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.saved = false;
        self.hasher()?.update(data)
    }

    fn collects(&self) -> bool {
        false
    }
}

impl Engine for Digesting {
    fn forget(&mut self) {
        let resets = self.prefix.is_empty();
        if self.hasher.as_mut().is_some_and(|hasher| !resets || hasher.reset().is_err()) {
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
    /// Ends an active digest whose state the caller has saved, so that `C_DigestInit` can start
    /// another one. The caller can still restore the state.
    ///
    /// PKCS#11 3.2, "All other Cryptoki function return values": `CKR_OPERATION_ACTIVE` means that
    /// an active operation "prevents Cryptoki from activating the specified operation". A saved
    /// digest does not prevent another one. OpenSSL's pkcs11-provider 1.3.0 never ends the digests
    /// that it has copied, and it reuses their sessions. Without this function, each of its TLS
    /// handshakes would fail.
    pub(super) fn end_saved(&mut self) {
        if self.active_engine().is_some_and(|engine| engine.saved) {
            self.cancel();
        }
        self.set_saved(false);
    }

    /// Records whether the caller has saved the state.
    pub(crate) fn set_saved(&mut self, saved: bool) {
        if let Ok(engine) = self.engine() {
            engine.saved = saved;
        }
    }

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
        let engine = self.engine_for(Parts::Single)?;
        let Output::Buffer(out) = out else { return Ok(engine.hash.len()) };
        let outcome = engine.digest(data, out);
        self.finish(outcome)
    }

    /// `C_DigestFinal`
    pub fn digest_final(&mut self, out: Output<'_>) -> Result<usize> {
        let engine = self.engine_for(Parts::Multiple)?;
        let Output::Buffer(out) = out else { return Ok(engine.hash.len()) };
        let outcome = engine.end(out);
        self.finish(outcome)
    }
}
