//! "Encryption functions". Nothing in this file locks or logs.
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
pub(crate) unsafe extern "C" fn C_EncryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.encrypt_init(session(handle), &mechanism, object(key)),
            None => module.encrypt_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Encrypt(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (data, encrypted) = (In(data, data_len), Out(encrypted, encrypted_len));
        // SAFETY: the contract of PKCS#11 for pData and pEncryptedData with their lengths.
        let outcome = unsafe { transform(data, encrypted, |data, out| module.encrypt(session, data, out)) };
        ending(outcome, || module.encrypt_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    encrypted: *mut CK_BYTE,
    encrypted_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (part, encrypted) = (In(part, part_len), Out(encrypted, encrypted_len));
        // SAFETY: the contract of PKCS#11 for pPart and pEncryptedPart with their lengths.
        let outcome =
            unsafe { transform(part, encrypted, |part, out| module.encrypt_update(session, part, out)) };
        ending(outcome, || module.encrypt_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncryptFinal(
    handle: CK_SESSION_HANDLE,
    last: *mut CK_BYTE,
    last_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let last = Out(last, last_len);
        // SAFETY: the contract of PKCS#11 for pLastEncryptedPart and its length.
        let outcome = unsafe { produce(last, |out| module.encrypt_final(session, out)) };
        ending(outcome, || module.encrypt_cancel(session))
    })
}
