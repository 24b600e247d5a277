//! "Functions for verifying signatures and MACs".

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::In;
use crate::number::{object, session};
use crate::params::mechanism;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.verify_init(session(handle), &mechanism, object(key)),
            None => module.verify_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Verify(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pData and pSignature.
        let inputs = unsafe { (In(data, data_len).bytes(), In(signature, signature_len).bytes()) };
        let outcome = match inputs {
            (Ok(data), Ok(signature)) => module.verify(session, data, signature),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        ending(outcome, || module.verify_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pPart.
        let part = unsafe { In(part, part_len).bytes() };
        ending(part.and_then(|part| module.verify_update(session, part)), || module.verify_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyFinal(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pSignature.
        let signature = unsafe { In(signature, signature_len).bytes() };
        let outcome = signature.and_then(|signature| module.verify_final(session, signature));
        ending(outcome, || module.verify_cancel(session))
    })
}
