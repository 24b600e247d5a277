//! Encryption and decryption (PKCS#11 3.2, "Encryption functions", "Decryption functions",
//! "Dual-function cryptographic functions").

use super::Module;
use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::session::operation::Output;

impl Module {
    /// `C_EncryptInit`
    pub fn encrypt_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_EncryptInit", mechanism, key, |session| {
            session.encrypt_init(mechanism, key)
        })
    }

    /// `C_Encrypt`. Returns the number of bytes written, or the maximum for [`Output::Length`].
    pub fn encrypt(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.encrypt.crypt(data, out))
    }

    /// `C_EncryptUpdate`
    pub fn encrypt_update(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.encrypt.crypt_update(data, out))
    }

    /// `C_EncryptFinal`
    pub fn encrypt_final(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.encrypt.crypt_final(out))
    }

    /// `C_EncryptInit` without a mechanism. Ends the operation.
    pub fn encrypt_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.encrypt.cancel())
    }

    /// `C_DecryptInit`
    pub fn decrypt_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.start_with(session, "C_DecryptInit", mechanism, key, |session| {
            session.decrypt_init(mechanism, key)
        })
    }

    /// `C_Decrypt`. Returns the number of bytes written, or the maximum for [`Output::Length`].
    pub fn decrypt(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.decrypt.crypt(data, out))
    }

    /// `C_DecryptUpdate`
    pub fn decrypt_update(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.decrypt.crypt_update(data, out))
    }

    /// `C_DecryptFinal`
    pub fn decrypt_final(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| session.decrypt.crypt_final(out))
    }

    /// `C_DecryptInit` without a mechanism. Ends the operation.
    pub fn decrypt_cancel(&self, session: SessionHandle) -> Result<()> {
        self.stop(session, |session| session.decrypt.cancel())
    }

    /// `C_DigestEncryptUpdate`. Digests and encrypts a part, or does neither if the buffer is too
    /// small.
    pub fn digest_encrypt_update(
        &self,
        session: SessionHandle,
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions.with(session, |session| {
            both(session.digest.active(), session.encrypt.active())?;
            let asked = matches!(out, Output::Length);
            let written = session.encrypt.crypt_update(data, out)?;
            if !asked {
                session.digest.update(data)?;
            }
            Ok(written)
        })
    }

    /// `C_DecryptDigestUpdate`
    pub fn decrypt_digest_update(
        &self,
        session: SessionHandle,
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions.with(session, |session| {
            both(session.decrypt.active(), session.digest.active())?;
            let Output::Buffer(out) = out else { return session.decrypt.crypt_update(data, out) };
            let written = session.decrypt.crypt_update(data, Output::Buffer(out))?;
            session.digest.update(&out[..written])?;
            Ok(written)
        })
    }

    /// `C_SignEncryptUpdate`
    pub fn sign_encrypt_update(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| {
            both(session.sign.active(), session.encrypt.active())?;
            let asked = matches!(out, Output::Length);
            let written = session.encrypt.crypt_update(data, out)?;
            if !asked {
                session.sign.update(data)?;
            }
            Ok(written)
        })
    }

    /// `C_DecryptVerifyUpdate`
    pub fn decrypt_verify_update(
        &self,
        session: SessionHandle,
        data: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        self.sessions.with(session, |session| {
            both(session.decrypt.active(), session.verify.active())?;
            let Output::Buffer(out) = out else { return session.decrypt.crypt_update(data, out) };
            let written = session.decrypt.crypt_update(data, Output::Buffer(out))?;
            session.verify.update(&out[..written])?;
            Ok(written)
        })
    }
}

/// Fails with `OperationNotInitialized` unless both operations of a dual function are active.
fn both(one: bool, other: bool) -> Result<()> {
    if one && other { Ok(()) } else { Err(Error::OperationNotInitialized) }
}
