//! "Signing and MACing functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{consume, init, produce, transform};
use crate::params::mechanism;

init!(C_SignInit, sign, mechanism, Session::sign_init);

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
