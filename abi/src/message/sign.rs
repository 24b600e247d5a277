//! "Message-based signing and MACing functions". No mechanism of these functions has a parameter
//! for each message.

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::module::Output;
use jeton::session::{Operation, Session, Signing};

use super::end_message;
use crate::call::{call_in, cancel_refused};
use crate::input::{In, Out, transform};
use crate::number::session;
use crate::operation::init;
use crate::params::message::no_parameter;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageSignInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for pMechanism.
    unsafe { init("C_MessageSignInit", (handle, given, key), operation, Session::message_sign_init) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignMessage(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        no_parameter(parameter_len)?;
        let (data, signature) = (In(data, data_len), Out(signature, signature_len));
        let function = signature.logged("C_SignMessage");
        let work = |data: &[u8], out: Output<'_>| {
            module.message(session(handle), function, operation, |sign| sign.sign_message(data, out))
        };
        // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
        unsafe { transform(data, signature, work) }
    })
}

/// # Safety
///
/// None: no pointer is followed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignMessageBegin(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        no_parameter(parameter_len)?;
        module.message(session(handle), Some("C_SignMessageBegin"), operation, Operation::message_start)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignMessageNext(
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        let part = In(part, part_len);
        let outcome = no_parameter(parameter_len).and_then(|()| {
            // "The pulSignatureLen argument is set to NULL if there is more data part to follow."
            if signature_len.is_null() {
                // SAFETY: the contract of PKCS#11 for pDataPart.
                let part = unsafe { part.bytes() }?;
                return module.message(session, None, operation, |sign| sign.message_update(part));
            }
            let signature = Out(signature, signature_len);
            let work = |part: &[u8], out: Output<'_>| {
                module.message(session, None, operation, |sign| sign.sign_message_end(part, out))
            };
            // SAFETY: the contract of PKCS#11 for pDataPart and pSignature with their lengths.
            unsafe { transform(part, signature, work) }
        });
        cancel_refused(outcome, || end_message(module, session, operation))
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageSignFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| {
        module.with_session(session(handle), |session| operation(session).message_final())
    })
}

fn operation(session: &mut Session) -> &mut Operation<Signing> {
    &mut session.operations.message_sign
}
