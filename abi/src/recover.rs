//! Signatures with recovery of the data: `C_SignRecover*` of "Signing and MACing functions",
//! `C_VerifyRecover*` of "Functions for verifying signatures and MACs".

use cryptoki_sys::*;
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{init, transform};
use crate::params::mechanism;

init!(C_SignRecoverInit, sign_recover, mechanism, Session::sign_recover_init);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignRecover(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let (data, signature) = (In(data, data_len), Out(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.sign_recover, data, signature, Operation::sign)
    })
}

init!(C_VerifyRecoverInit, verify_recover, mechanism, Session::verify_recover_init);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyRecover(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: *mut CK_ULONG,
) -> CK_RV {
    let (signature, data) = (In(signature, signature_len), Out(data, data_len));
    // SAFETY: the contract of PKCS#11 for pSignature and pData with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.verify_recover, signature, data, Operation::recover)
    })
}
