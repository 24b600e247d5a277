//! "Signing and MACing functions". This is the hot path: nothing in this file allocates or logs.
//! Data is copied only if input and output overlap.

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::{In, Out, produce, transform};
use crate::number::{object, session};
use crate::params::mechanism;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.sign_init(session(handle), &mechanism, object(key)),
            None => module.sign_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Sign(
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
        let outcome = unsafe { transform(data, signature, |data, out| module.sign(session, data, out)) };
        ending(outcome, || module.sign_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pPart.
        let part = unsafe { In(part, part_len).bytes() };
        ending(part.and_then(|part| module.sign_update(session, part)), || module.sign_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignFinal(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let signature = Out(signature, signature_len);
        // SAFETY: the contract of PKCS#11 for pSignature and its length.
        let outcome = unsafe { produce(signature, |out| module.sign_final(session, out)) };
        ending(outcome, || module.sign_cancel(session))
    })
}
