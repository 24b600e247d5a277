//! `C_VerifySignature*` of "Functions for verifying signatures and MACs": the caller passes the
//! signature before the data.

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::In;
use crate::number::{object, session};
use crate::params::mechanism;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let Some(mechanism) = unsafe { mechanism(given) }? else {
            return module.verify_signature_cancel(session(handle));
        };
        // SAFETY: the contract of PKCS#11 for pSignature.
        let signature = unsafe { In(signature, signature_len).bytes() }?;
        module.verify_signature_init(session(handle), &mechanism, object(key), signature)
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignature(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pData.
        let data = unsafe { In(data, data_len).bytes() };
        let outcome = data.and_then(|data| module.verify_signature(session, data));
        ending(outcome, || module.verify_signature_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pPart.
        let part = unsafe { In(part, part_len).bytes() };
        let outcome = part.and_then(|part| module.verify_signature_update(session, part));
        ending(outcome, || module.verify_signature_cancel(session))
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifySignatureFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| module.verify_signature_final(session(handle)))
}
