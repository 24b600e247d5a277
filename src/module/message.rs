//! The message-based functions (PKCS#11 3.2, "Message-based encryption functions", "… decryption
//! functions", "… signing and MACing functions", "… functions for verifying signatures and MACs").
//!
//! No signature mechanism has a parameter for each message, so these functions take none. The code
//! that parses parameters makes sure that the caller passed none.

use super::Module;
use crate::backend::{AeadScheme, Direction};
use crate::error::Result;
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::mechanism::message::MessageParams;
use crate::session::operation::Output;

/// Encryption and decryption, which the `direction` selects.
impl Module {
    /// `C_MessageEncryptInit` and `C_MessageDecryptInit`. The mechanism has no parameter, because
    /// each message has one.
    pub fn message_crypt_init(
        &self,
        session: SessionHandle,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        let function = match direction {
            Direction::Encrypt => "C_MessageEncryptInit",
            Direction::Decrypt => "C_MessageDecryptInit",
        };
        self.start_with(session, function, mechanism, key, |session| {
            session.message_crypt_init(direction, mechanism, key)
        })
    }

    /// `C_EncryptMessage` and `C_DecryptMessage`. Returns the number of bytes written, or the
    /// length of the result for [`Output::Length`].
    pub fn crypt_message(
        &self,
        session: SessionHandle,
        direction: Direction,
        params: &mut MessageParams,
        aad: &[u8],
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions
            .with(session, |session| session.messages(direction).crypt_message(params, aad, data, out))
    }

    /// `C_EncryptMessageBegin`, `C_DecryptMessageBegin`
    pub fn crypt_message_begin(
        &self,
        session: SessionHandle,
        direction: Direction,
        params: &mut MessageParams,
        aad: &[u8],
    ) -> Result<()> {
        self.sessions.with(session, |session| session.messages(direction).crypt_message_begin(params, aad))
    }

    /// `C_EncryptMessageNext` and `C_DecryptMessageNext` with a part that is not the last.
    pub fn crypt_message_part(
        &self,
        session: SessionHandle,
        direction: Direction,
        part: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions.with(session, |session| session.messages(direction).crypt_message_part(part, out))
    }

    /// `C_EncryptMessageNext` and `C_DecryptMessageNext` with `CKF_END_OF_MESSAGE`.
    pub fn crypt_message_end(
        &self,
        session: SessionHandle,
        direction: Direction,
        params: &mut MessageParams,
        part: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions
            .with(session, |session| session.messages(direction).crypt_message_end(params, part, out))
    }

    /// Returns the cipher of a message that can begin now, or of the active message.
    pub fn crypt_message_state(
        &self,
        session: SessionHandle,
        direction: Direction,
        begun: bool,
    ) -> Result<AeadScheme> {
        self.sessions.with(session, |session| session.messages(direction).message_scheme(begun))
    }

    /// Ends the message in several parts. A call whose arguments are refused does this.
    pub fn crypt_message_cancel(&self, session: SessionHandle, direction: Direction) -> Result<()> {
        self.stop(session, |session| session.messages(direction).message_cancel())
    }

    /// `C_MessageEncryptFinal`, `C_MessageDecryptFinal`
    pub fn message_crypt_final(&self, session: SessionHandle, direction: Direction) -> Result<()> {
        self.sessions.with(session, |session| session.messages(direction).message_final())
    }

    /// `C_MessageEncryptInit` and `C_MessageDecryptInit` without a mechanism. Ends the operation.
    pub fn message_crypt_cancel(&self, session: SessionHandle, direction: Direction) -> Result<()> {
        self.stop(session, |session| session.messages(direction).cancel())
    }
}

/// Signatures.
impl Module {
    /// `C_MessageSignInit`
    pub fn message_sign_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_MessageSignInit", mechanism, key, |session| {
            session.message_sign_init(mechanism, key)
        })
    }

    /// `C_SignMessage`. Returns the number of bytes written, or the length of the result for
    /// [`Output::Length`].
    pub fn sign_message(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.message_sign.sign_message(data, out))
    }

    /// `C_SignMessageBegin`
    pub fn sign_message_begin(&self, session: SessionHandle) -> Result<()> {
        self.sessions.with(session, |session| session.message_sign.message_begin(|_| Ok(())))
    }

    /// `C_SignMessageNext` with a part that is not the last.
    pub fn sign_message_part(&self, session: SessionHandle, part: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.message_sign.message_update(part))
    }

    /// `C_SignMessageNext` with the last part.
    pub fn sign_message_end(&self, session: SessionHandle, part: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.message_sign.sign_message_end(part, out))
    }

    /// Ends the message in several parts. A call whose arguments are refused does this.
    pub fn sign_message_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.message_sign.message_cancel())
    }

    /// `C_MessageSignFinal`
    pub fn message_sign_final(&self, session: SessionHandle) -> Result<()> {
        self.sessions.with(session, |session| session.message_sign.message_final())
    }

    /// `C_MessageSignInit` without a mechanism. Ends the operation.
    pub fn message_sign_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.message_sign.cancel())
    }
}

/// Verification.
impl Module {
    /// `C_MessageVerifyInit`
    pub fn message_verify_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_MessageVerifyInit", mechanism, key, |session| {
            session.message_verify_init(mechanism, key)
        })
    }

    /// `C_VerifyMessage`
    pub fn verify_message(&self, session: SessionHandle, data: &[u8], signature: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.message_verify.verify_message(data, signature))
    }

    /// `C_VerifyMessageBegin`
    pub fn verify_message_begin(&self, session: SessionHandle) -> Result<()> {
        self.sessions.with(session, |session| session.message_verify.message_begin(|_| Ok(())))
    }

    /// `C_VerifyMessageNext` with a part that is not the last.
    pub fn verify_message_part(&self, session: SessionHandle, part: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.message_verify.message_update(part))
    }

    /// `C_VerifyMessageNext` with the last part.
    pub fn verify_message_end(&self, session: SessionHandle, part: &[u8], signature: &[u8]) -> Result<()> {
        self.sessions.with(session, |session| session.message_verify.verify_message_end(part, signature))
    }

    /// Ends the message in several parts. A call whose arguments are refused does this.
    pub fn verify_message_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.message_verify.message_cancel())
    }

    /// `C_MessageVerifyFinal`
    pub fn message_verify_final(&self, session: SessionHandle) -> Result<()> {
        self.sessions.with(session, |session| session.message_verify.message_final())
    }

    /// `C_MessageVerifyInit` without a mechanism. Ends the operation.
    pub fn message_verify_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.message_verify.cancel())
    }
}
