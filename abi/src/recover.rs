//! Signatures with recovery of the data: `C_SignRecover*` of "Signing and MACing functions",
//! `C_VerifyRecover*` of "Functions for verifying signatures and MACs".

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::{In, Out, transform};
use crate::number::{object, session};
use crate::params::mechanism;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignRecoverInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.sign_recover_init(session(handle), &mechanism, object(key)),
            None => module.sign_recover_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignRecover(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (data, signature) = (In(data, data_len), Out(signature, signature_len));
        // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
        let outcome =
            unsafe { transform(data, signature, |data, out| module.sign_recover(session, data, out)) };
        ending(outcome, || module.sign_recover_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyRecoverInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.verify_recover_init(session(handle), &mechanism, object(key)),
            None => module.verify_recover_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyRecover(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (signature, data) = (In(signature, signature_len), Out(data, data_len));
        // SAFETY: the contract of PKCS#11 for pSignature and pData with their lengths.
        let outcome = unsafe {
            transform(signature, data, |signature, out| module.verify_recover(session, signature, out))
        };
        ending(outcome, || module.verify_recover_cancel(session))
    })
}
