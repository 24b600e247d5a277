//! Digests, signatures and their verification (PKCS#11 3.2, "Message digesting functions" to
//! "Functions for verifying signatures and MACs").

use super::Module;
use super::audit::{self, Call};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::object::Object;
use crate::object::bits::Flag;
use crate::session::operation::Output;
use crate::session::{Session, strong_enough};

impl Module {
    /// `C_DigestInit`
    pub fn digest_init(&self, session: SessionHandle, mechanism: &Mechanism) -> Result<()> {
        self.sessions.with(session, |session| session.digest_init(mechanism))
    }

    /// `C_Digest`
    pub fn digest(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.digest.digest(data, out))
    }

    /// `C_DigestUpdate`
    pub fn digest_update(&self, session: SessionHandle, data: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.digest.update(data))
    }

    /// `C_DigestKey`
    pub fn digest_key(&self, session: SessionHandle, key: ObjectHandle) -> Result<()> {
        self.recorded(session, Call::of("C_DigestKey", None, &[key]), || {
            self.sessions.with(session, |session| {
                let mechanism = session.digest.with().ok_or(Error::OperationNotInitialized)?;
                let object = session.token.key_object(session.rights(), key)?;
                digestible(&object, mechanism)?;
                session.digest.update(object.attributes().bytes(A::VALUE).unwrap_or_default())
            })
        })
    }

    /// `C_DigestFinal`
    pub fn digest_final(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.digest.digest_final(out))
    }

    /// `C_DigestInit` without a mechanism. Ends the operation.
    pub fn digest_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.digest.cancel())
    }

    /// `C_SignInit`
    pub fn sign_init(&self, session: SessionHandle, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        self.start_with(session, "C_SignInit", mechanism, key, |session| session.sign_init(mechanism, key))
    }

    /// `C_Sign`. Returns the number of bytes written, or the length of the signature for
    /// [`Output::Length`].
    pub fn sign(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.sign.sign(data, out))
    }

    /// `C_SignUpdate`
    pub fn sign_update(&self, session: SessionHandle, data: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.sign.update(data))
    }

    /// `C_SignFinal`
    pub fn sign_final(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.sign.sign_final(out))
    }

    /// `C_SignInit` without a mechanism. Ends the operation.
    pub fn sign_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.sign.cancel())
    }

    /// `C_VerifyInit`
    pub fn verify_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_VerifyInit", mechanism, key, |session| {
            session.verify_init(mechanism, key)
        })
    }

    /// `C_Verify`
    pub fn verify(&self, session: SessionHandle, data: &[u8], signature: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.verify.verify(data, signature))
    }

    /// `C_VerifyUpdate`
    pub fn verify_update(&self, session: SessionHandle, data: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.verify.update(data))
    }

    /// `C_VerifyFinal`
    pub fn verify_final(&self, session: SessionHandle, signature: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.verify.verify_final(signature))
    }

    /// `C_VerifyInit` without a mechanism. Ends the operation.
    pub fn verify_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.verify.cancel())
    }
}

/// Checks that `C_DigestKey` may use a key with that digest mechanism. The function has no usage
/// attribute of its own. It gives the same bytes as the key derivations by a digest, so a sensitive
/// key needs `CKA_DERIVE`. The digest of a short key would confirm a guess at it.
fn digestible(key: &Object, mechanism: &Mechanism) -> Result<()> {
    let derives = !key.flag(Flag::SENSITIVE) || key.flag(Flag::DERIVE);
    if !key.object_type().is_secret() || !key.allows(mechanism.info.id) || !derives {
        return Err(Error::KeyIndigestible);
    }
    strong_enough(key)
}

impl Module {
    /// Runs the Init function of an operation with a key, and records it in the audit log.
    pub(super) fn start_with(
        &self,
        session: SessionHandle,
        function: &'static str,
        mechanism: &Mechanism,
        key: ObjectHandle,
        init: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<()> {
        self.sessions.with(session, |session| {
            let outcome = init(session);
            if let Some(audit) = &session.token.settings.audit {
                audit::started(audit, session, function, mechanism, key, &outcome);
            }
            outcome
        })
    }

    /// Ends an operation. Succeeds if no operation is active.
    pub(super) fn stop(&self, session: SessionHandle, cancel: impl FnOnce(&mut Session)) -> Result<()> {
        self.sessions.with(session, |session| {
            cancel(session);
            Ok(())
        })
    }
}
