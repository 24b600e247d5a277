//! "Decryption functions". Nothing in this file locks or logs.
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
pub(crate) unsafe extern "C" fn C_DecryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.decrypt_init(session(handle), &mechanism, object(key)),
            None => module.decrypt_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Decrypt(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (encrypted, data) = (In(encrypted, encrypted_len), Out(data, data_len));
        // SAFETY: the contract of PKCS#11 for pEncryptedData and pData with their lengths.
        let outcome =
            unsafe { transform(encrypted, data, |encrypted, out| module.decrypt(session, encrypted, out)) };
        ending(outcome, || module.decrypt_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptUpdate(
    handle: CK_SESSION_HANDLE,
    encrypted: *mut CK_BYTE,
    encrypted_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (encrypted, part) = (In(encrypted, encrypted_len), Out(part, part_len));
        // SAFETY: the contract of PKCS#11 for pEncryptedPart and pPart with their lengths.
        let outcome = unsafe {
            transform(encrypted, part, |encrypted, out| module.decrypt_update(session, encrypted, out))
        };
        ending(outcome, || module.decrypt_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let last = Out(last, last_len);
        // SAFETY: the contract of PKCS#11 for pLastPart and its length.
        let outcome = unsafe { produce(last, |out| module.decrypt_final(session, out)) };
        ending(outcome, || module.decrypt_cancel(session))
    })
}
