//! Wrapping and unwrapping.
use super::*;
use crate::id::ObjectHandle;
use crate::mechanism::Invocation;
use crate::object::template::Template;
impl Module {
    /// `C_WrapKey`
    pub fn wrap_key(&self, _session: SessionHandle, _with: &Invocation, _wrapping: ObjectHandle, _key: ObjectHandle, _out: Output<'_>) -> Result<usize> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_UnwrapKey`
    pub fn unwrap_key(&self, _session: SessionHandle, _with: &Invocation, _unwrapping: ObjectHandle, _wrapped: &[u8], _template: &Template<'_>) -> Result<ObjectHandle> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_DeriveKey`
    pub fn derive_key(&self, _session: SessionHandle, _with: &Invocation, _base: ObjectHandle, _template: &Template<'_>) -> Result<ObjectHandle> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_EncapsulateKey`: the ciphertext's length, and the key once the ciphertext was written.
    pub fn encapsulate_key(&self, _session: SessionHandle, _with: &Invocation, _public: ObjectHandle, _template: &Template<'_>, _out: Output<'_>) -> Result<(usize, Option<ObjectHandle>)> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_DecapsulateKey`
    pub fn decapsulate_key(&self, _session: SessionHandle, _with: &Invocation, _private: ObjectHandle, _template: &Template<'_>, _ciphertext: &[u8]) -> Result<ObjectHandle> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_SignRecoverInit`
    pub fn sign_recover_init(&self, _session: SessionHandle, _with: &Invocation, _key: ObjectHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_SignRecover`
    pub fn sign_recover(&self, _session: SessionHandle, _data: &[u8], _out: Output<'_>) -> Result<usize> {
        Err(Error::FunctionNotSupported)
    }
    /// Ends it.
    pub fn sign_recover_cancel(&self, _session: SessionHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifyRecoverInit`
    pub fn verify_recover_init(&self, _session: SessionHandle, _with: &Invocation, _key: ObjectHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifyRecover`
    pub fn verify_recover(&self, _session: SessionHandle, _signature: &[u8], _out: Output<'_>) -> Result<usize> {
        Err(Error::FunctionNotSupported)
    }
    /// Ends it.
    pub fn verify_recover_cancel(&self, _session: SessionHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifySignatureInit`: the signature comes first.
    pub fn verify_signature_init(&self, _session: SessionHandle, _with: &Invocation, _key: ObjectHandle, _signature: &[u8]) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifySignature`
    pub fn verify_signature(&self, _session: SessionHandle, _data: &[u8]) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifySignatureUpdate`
    pub fn verify_signature_update(&self, _session: SessionHandle, _data: &[u8]) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// `C_VerifySignatureFinal`
    pub fn verify_signature_final(&self, _session: SessionHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
    /// Ends it.
    pub fn verify_signature_cancel(&self, _session: SessionHandle) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }
}
