//! "Message digesting functions".

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::{In, Out, produce, transform};
use crate::number::{object, session};
use crate::params::mechanism;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestInit(handle: CK_SESSION_HANDLE, given: *mut CK_MECHANISM) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.digest_init(session(handle), &mechanism),
            None => module.digest_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Digest(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let (data, digest) = (In(data, data_len), Out(digest, digest_len));
        // SAFETY: the contract of PKCS#11 for pData and pDigest with their lengths.
        let outcome = unsafe { transform(data, digest, |data, out| module.digest(session, data, out)) };
        ending(outcome, || module.digest_cancel(session))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pPart.
        let part = unsafe { In(part, part_len).bytes() };
        ending(part.and_then(|part| module.digest_update(session, part)), || module.digest_cancel(session))
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestKey(handle: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) -> CK_RV {
    call_in(handle, |module| module.digest_key(session(handle), object(key)))
}

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestFinal(
    handle: CK_SESSION_HANDLE,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let digest = Out(digest, digest_len);
        // SAFETY: the contract of PKCS#11 for pDigest and its length.
        let outcome = unsafe { produce(digest, |out| module.digest_final(session, out)) };
        ending(outcome, || module.digest_cancel(session))
    })
}
