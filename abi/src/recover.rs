//! Signatures with recovery of the data: `C_SignRecover*` of "Signing and MACing functions",
//! `C_VerifyRecover*` of "Functions for verifying signatures and MACs".

use cryptoki_sys::*;
use jeton::session::{Operation, Recovering, Session, Signing};

use crate::input::{In, Out};
use crate::operation::{init, transform};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignRecoverInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe {
        init("C_SignRecoverInit", (handle, given, key), sign_recover_operation, Session::sign_recover_init)
    }
}

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
    unsafe { transform(handle, sign_recover_operation, data, signature, Operation::sign) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyRecoverInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe {
        init(
            "C_VerifyRecoverInit",
            (handle, given, key),
            verify_recover_operation,
            Session::verify_recover_init,
        )
    }
}

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
    unsafe { transform(handle, verify_recover_operation, signature, data, Operation::recover) }
}

fn sign_recover_operation(session: &mut Session) -> &mut Operation<Signing> {
    &mut session.operations.sign_recover
}

fn verify_recover_operation(session: &mut Session) -> &mut Operation<Recovering> {
    &mut session.operations.verify_recover
}
