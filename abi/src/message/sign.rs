//! "Message-based signing and MACing functions" and "Message-based functions for verifying
//! signatures and MACs". No mechanism of these functions has a parameter for each message.

use std::ffi::c_void;

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::input::{In, Out, transform};
use crate::operation::{function, init};
use crate::params::message::no_parameter;

/// Defines the function that begins a message.
macro_rules! begin {
    ($name:ident, $method:ident) => {
        /// # Safety
        ///
        /// None: no pointer is followed.
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            _: *mut c_void,
            parameter_len: CK_ULONG,
        ) -> CK_RV {
            entry.call_in(Function::$name, handle, |token, session| {
                no_parameter(parameter_len)?;
                answered(token.$method(session))
            })
        }
    };
}

init!(C_MessageSignInit, message_sign_init);
begin!(C_SignMessageBegin, sign_message_begin);
function!(session C_MessageSignFinal, message_sign_final);

pub unsafe fn C_SignMessage<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_SignMessage, handle, |token, session| {
        no_parameter(parameter_len)?;
        let (data, signature) = (In(data, data_len), Out(signature, signature_len));
        // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
        unsafe { transform(data, signature, |data, out| token.sign_message(session, data, out)) }
    })
}

pub unsafe fn C_SignMessageNext<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let (part, signature) = (In(part, part_len), Out(signature, signature_len));
    // "The pulSignatureLen argument is set to NULL if there is more data part to follow."
    if signature_len.is_null() {
        return entry.call_in(Function::C_SignMessageNext, handle, |token, session| {
            no_parameter(parameter_len)?;
            // SAFETY: the contract of PKCS#11 for pDataPart.
            let part = unsafe { part.bytes() }?;
            answered(token.sign_message_next(session, part))
        });
    }
    entry.call_in(Function::C_SignMessageEnd, handle, |token, session| {
        no_parameter(parameter_len)?;
        // SAFETY: the contract of PKCS#11 for pDataPart and pSignature with their lengths.
        unsafe { transform(part, signature, |part, out| token.sign_message_end(session, part, out)) }
    })
}

init!(C_MessageVerifyInit, message_verify_init);
begin!(C_VerifyMessageBegin, verify_message_begin);
function!(session C_MessageVerifyFinal, message_verify_final);

pub unsafe fn C_VerifyMessage<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_VerifyMessage, handle, |token, session| {
        no_parameter(parameter_len)?;
        // SAFETY: the contract of PKCS#11 for pData and pSignature.
        let (data, signature) =
            unsafe { (In(data, data_len).bytes()?, In(signature, signature_len).bytes()?) };
        answered(token.verify_message(session, data, signature))
    })
}

pub unsafe fn C_VerifyMessageNext<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    _: *mut c_void,
    parameter_len: CK_ULONG,
    part: *mut CK_BYTE,
    part_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    let (part, signature) = (In(part, part_len), In(signature, signature_len));
    // "The pSignature argument is set to NULL if there is more data part to follow."
    if signature.0.is_null() {
        return entry.call_in(Function::C_VerifyMessageNext, handle, |token, session| {
            no_parameter(parameter_len)?;
            // SAFETY: the contract of PKCS#11 for pDataPart.
            let part = unsafe { part.bytes() }?;
            answered(token.verify_message_next(session, part))
        });
    }
    entry.call_in(Function::C_VerifyMessageEnd, handle, |token, session| {
        no_parameter(parameter_len)?;
        // SAFETY: the contract of PKCS#11 for pDataPart and pSignature.
        let (part, signature) = unsafe { (part.bytes()?, signature.bytes()?) };
        answered(token.verify_message_end(session, part, signature))
    })
}
