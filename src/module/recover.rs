//! Signatures with data recovery, and verifications that get the signature before the data (PKCS#11
//! 3.2, `C_SignRecover`, `C_VerifyRecover`, `C_VerifySignature`).

use super::Module;
use crate::error::Result;
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::session::operation::Output;

impl Module {
    /// `C_SignRecoverInit`
    pub fn sign_recover_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_SignRecoverInit", mechanism, key, |session| {
            session.sign_recover_init(mechanism, key)
        })
    }

    /// `C_SignRecover`
    pub fn sign_recover(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.sign_recover.sign(data, out))
    }

    /// `C_SignRecoverInit` without a mechanism. Ends the operation.
    pub fn sign_recover_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.sign_recover.cancel())
    }

    /// `C_VerifyRecoverInit`
    pub fn verify_recover_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_VerifyRecoverInit", mechanism, key, |session| {
            session.verify_recover_init(mechanism, key)
        })
    }

    /// `C_VerifyRecover`. Returns the length of the data, or the maximum for [`Output::Length`].
    pub fn verify_recover(&self, session: SessionHandle, signature: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.verify_recover.recover(signature, out))
    }

    /// `C_VerifyRecoverInit` without a mechanism. Ends the operation.
    pub fn verify_recover_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.verify_recover.cancel())
    }

    /// `C_VerifySignatureInit`, which gets the signature before the data.
    pub fn verify_signature_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        signature: &[u8],
    ) -> Result<()> {
        self.start_with(session, "C_VerifySignatureInit", mechanism, key, |session| {
            session.verify_init_with(mechanism, key, signature)
        })
    }

    /// `C_VerifySignature`
    pub fn verify_signature(&self, session: SessionHandle, data: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.verify_signature.verify(data, &session.signature))
    }

    /// `C_VerifySignatureUpdate`
    pub fn verify_signature_update(&self, session: SessionHandle, data: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.verify_signature.update(data))
    }

    /// `C_VerifySignatureFinal`
    pub fn verify_signature_final(&self, session: SessionHandle) -> Result<()> {
        self.sessions.with(session, |session| session.verify_signature.verify_final(&session.signature))
    }

    /// `C_VerifySignatureInit` without a mechanism. Ends the operation.
    pub fn verify_signature_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.verify_signature.cancel())
    }
}
