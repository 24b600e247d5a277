//! "Functions for verifying signatures and MACs".

use cryptoki_sys::*;
use jeton::session::{Operation, Session, Verifying};

use crate::input::In;
use crate::operation::{consume, consume_both, init};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init("C_VerifyInit", (handle, given, key), verify_operation, Session::verify_init) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Verify(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    let inputs = (In(data, data_len), In(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pData and pSignature.
    unsafe { consume_both(handle, verify_operation, inputs, Operation::verify) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyUpdate(
    handle: CK_SESSION_HANDLE,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pPart.
    unsafe { consume(handle, verify_operation, In(part, part_len), Operation::update) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyFinal(
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pSignature.
    unsafe { consume(handle, verify_operation, In(signature, signature_len), Operation::verify_final) }
}

fn verify_operation(session: &mut Session) -> &mut Operation<Verifying> {
    &mut session.operations.verify
}
