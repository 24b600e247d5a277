//! "Message-based signing and MACing functions". No mechanism has a parameter for each message.

use std::ffi::c_void;

use cryptoki_sys::*;

use crate::call::{call_in, ending};
use crate::input::{In, Out, transform};
use crate::number::{object, session};
use crate::params::mechanism;
use crate::params::message::no_parameter;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageSignInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { mechanism(given) }? {
            Some(mechanism) => module.message_sign_init(session(handle), &mechanism, object(key)),
            None => module.message_sign_cancel(session(handle)),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
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
        // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
        unsafe { transform(data, signature, |data, out| module.sign_message(session(handle), data, out)) }
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
        module.sign_message_begin(session(handle))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
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
                return module.sign_message_part(session, unsafe { part.bytes() }?);
            }
            let signature = Out(signature, signature_len);
            // SAFETY: the contract of PKCS#11 for pDataPart and pSignature with their lengths.
            unsafe { transform(part, signature, |part, out| module.sign_message_end(session, part, out)) }
        });
        ending(outcome, || module.sign_message_cancel(session))
    })
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageSignFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| module.message_sign_final(session(handle)))
}
