//! Verification of a signature that the caller passes before the data (PKCS#11 3.2,
//! `C_VerifySignatureInit`).

use super::operation::{Absorb, Engine, Operation, Parts, Resume};
use super::progress::Progress;
use super::sign::Verifying;
use crate::error::Result;

/// The engine of `C_VerifySignature`.
pub struct VerifyingSignature {
    verifying: Verifying,
    signature: Box<[u8]>,
}

impl VerifyingSignature {
    /// Returns an engine without a signature.
    pub(super) fn new(verifying: Verifying) -> Self {
        Self { verifying, signature: Box::default() }
    }
}

impl Engine for VerifyingSignature {
    fn forget(&mut self) {
        self.verifying.forget();
    }

    fn size(&self) -> usize {
        self.verifying.size()
    }
}

impl Absorb for VerifyingSignature {
    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.verifying.update(data)
    }

    fn collects(&self) -> bool {
        self.verifying.collects()
    }
}

impl Resume for VerifyingSignature {
    fn save(&self) -> Result<Progress> {
        self.verifying.save()
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.verifying.resume(progress)
    }
}

impl Operation<VerifyingSignature> {
    /// Sets the signature. The operation has just started.
    pub(super) fn set_signature(&mut self, signature: Box<[u8]>) -> Result<()> {
        self.pass(|| signature.len()).inspect_err(|_| self.cancel())?;
        self.engine()?.signature = signature;
        Ok(())
    }

    /// Returns the signature of the active operation.
    pub(super) fn signature(&self) -> Option<&[u8]> {
        self.active_engine().map(|engine| &*engine.signature)
    }

    /// `C_VerifySignature`
    pub fn verify_signature(&mut self, data: &[u8]) -> Result<()> {
        let engine = self.engine_for(Parts::Single)?;
        let outcome = engine.verifying.verify_whole(data, &engine.signature);
        self.finish(outcome)
    }

    /// `C_VerifySignatureFinal`
    pub fn verify_signature_final(&mut self) -> Result<()> {
        let engine = self.engine_for(Parts::Multiple)?;
        let outcome = engine.verifying.verify_end(&engine.signature);
        self.finish(outcome)
    }
}
