//! "Signing and MACing functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::*;
use jeton::session::{Operation, Session, Signing};

use crate::input::{In, Out};
use crate::operation::{consume, init, produce, transform};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init("C_SignInit", (handle, given, key), sign_operation, Session::sign_init) }
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
    unsafe { transform(handle, sign_operation, data, signature, Operation::sign) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pPart.
    unsafe { consume(handle, sign_operation, In(part, part_len), Operation::update) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignFinal(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let signature = Out(signature, signature_len);
    // SAFETY: the contract of PKCS#11 for pSignature and its length.
    unsafe { produce(handle, sign_operation, signature, Operation::sign_final) }
}

fn sign_operation(session: &mut Session) -> &mut Operation<Signing> {
    &mut session.operations.sign
}
