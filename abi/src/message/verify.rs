//! "Message-based functions for verifying signatures and MACs". No mechanism of these functions has
//! a parameter for each message.

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::session::{Operation, Session, Verifying};

use super::end_message;
use crate::call::{call_in, cancel_refused};
use crate::input::In;
use crate::number::session;
use crate::operation::init;
use crate::params::message::no_parameter;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageVerifyInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init("C_MessageVerifyInit", (handle, given, key), operation, Session::message_verify_init) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyMessage(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        no_parameter(parameter_len)?;
        // SAFETY: the contract of PKCS#11 for pData and pSignature.
        let (data, signature) =
            unsafe { (In(data, data_len).bytes()?, In(signature, signature_len).bytes()?) };
        let function = Some("C_VerifyMessage");
        module.message(session(handle), function, operation, |verify| verify.verify_message(data, signature))
    })
}

/// # Safety
///
/// None: no pointer is followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyMessageBegin(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        no_parameter(parameter_len)?;
        module.message(session(handle), Some("C_VerifyMessageBegin"), operation, Operation::message_start)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_VerifyMessageNext(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let outcome = no_parameter(parameter_len).and_then(|()| {
            // SAFETY: the contract of PKCS#11 for pDataPart.
            let part = unsafe { In(part, part_len).bytes() }?;
            // "The pSignature argument is set to NULL if there is more data part to follow."
            if signature.is_null() {
                return module.message(session, None, operation, |verify| verify.message_update(part));
            }
            // SAFETY: the contract of PKCS#11 for pSignature.
            let signature = unsafe { In(signature, signature_len).bytes() }?;
            module.message(session, None, operation, |verify| verify.verify_message_end(part, signature))
        });
        cancel_refused(outcome, || end_message(module, session, operation))
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageVerifyFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| {
        module.with_session(session(handle), |session| operation(session).message_final())
    })
}

fn operation(session: &mut Session) -> &mut Operation<Verifying> {
    &mut session.operations.message_verify
}
