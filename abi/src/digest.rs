//! "Message digesting functions".

use cryptoki_sys::*;
use jeton::session::Operation;

use crate::call::{call_in, call_session};
use crate::input::{In, Out};
use crate::number::{object, session};
use crate::operation::{cancel, consume, produce, transform};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestInit(handle: CK_SESSION_HANDLE, given: *mut CK_MECHANISM) -> CK_RV {
    call_session(handle, |session| {
        if given.is_null() {
            return cancel(&mut session.operations.digest);
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        session.digest_init(&mechanism)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Digest(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    let (data, digest) = (In(data, data_len), Out(digest, digest_len));
    // SAFETY: the contract of PKCS#11 for pData and pDigest with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.digest, data, digest, Operation::digest)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pPart.
    call_session(handle, |session| unsafe {
        consume(&mut session.operations.digest, In(part, part_len), Operation::update)
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestKey(handle: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) -> CK_RV {
    call_in(handle, |module| module.digest_key(session(handle), object(key)))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestFinal(
    handle: CK_SESSION_HANDLE,
    digest: *mut CK_BYTE,
    digest_len: *mut CK_ULONG,
) -> CK_RV {
    let digest = Out(digest, digest_len);
    // SAFETY: the contract of PKCS#11 for pDigest and its length.
    call_session(handle, |session| unsafe {
        produce(&mut session.operations.digest, digest, Operation::digest_final)
    })
}
