//! "Signing and MACing functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::{In, Out};
use crate::number::object;
use crate::operation::{cancel, consume, produce, transform};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_session(handle, |session| {
        if given.is_null() {
            return cancel(&mut session.operations.sign);
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        session.start("C_SignInit", &mechanism, object(key), Session::sign_init)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Sign(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let (data, signature) = (In(data, data_len), Out(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
    call_session(handle, |session| unsafe {
        transform(&mut session.operations.sign, data, signature, Operation::sign)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pPart.
    call_session(handle, |session| unsafe {
        consume(&mut session.operations.sign, In(part, part_len), Operation::update)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignFinal(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let signature = Out(signature, signature_len);
    // SAFETY: the contract of PKCS#11 for pSignature and its length.
    call_session(handle, |session| unsafe {
        produce(&mut session.operations.sign, signature, Operation::sign_final)
    })
}
