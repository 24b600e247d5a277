//! "Message-based signing and MACing functions" and "Message-based functions for verifying
//! signatures and MACs". No mechanism of these functions has a parameter for each message.

use std::ffi::c_void;

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::functions::Output;
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::{In, Out, transform};
use crate::operation::cancel_refused;
use crate::params::mechanism;
use crate::params::message::no_parameter;

/// Defines the functions that signing and verifying share.
macro_rules! functions {
    ($operation:ident, $start:ident: $init:ident, $begin:ident, $final:ident) => {
        init_and_final!($init, $final, $operation, mechanism, Session::$start);

        /// # Safety
        ///
        /// None: no pointer is followed.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $begin(
            handle: CK_SESSION_HANDLE,
            _: *mut c_void,
            parameter_len: CK_ULONG,
        ) -> CK_RV {
            call_session(handle, |session| {
                no_parameter(parameter_len)?;
                let (owner, operations) = session.split();
                let function = Some(stringify!($begin));
                owner.message(function, &mut operations.$operation, Operation::message_start)
            })
        }
    };
}

functions!(message_sign, message_sign_init: C_MessageSignInit, C_SignMessageBegin, C_MessageSignFinal);

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
    call_session(handle, |session| {
        no_parameter(parameter_len)?;
        let (owner, operations) = session.split();
        let (data, signature) = (In(data, data_len), Out(signature, signature_len));
        let (function, sign) = (signature.logged("C_SignMessage"), &mut operations.message_sign);
        let work =
            |data: &[u8], out: Output<'_>| owner.message(function, sign, |sign| sign.sign_message(data, out));
        // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
        unsafe { transform(data, signature, work) }
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
    call_session(handle, |session| {
        let (owner, operations) = session.split();
        let sign = &mut operations.message_sign;
        let (part, signature) = (In(part, part_len), Out(signature, signature_len));
        let outcome = no_parameter(parameter_len).and_then(|()| {
            // "The pulSignatureLen argument is set to NULL if there is more data part to follow."
            if signature_len.is_null() {
                // SAFETY: the contract of PKCS#11 for pDataPart.
                let part = unsafe { part.bytes() }?;
                return owner.message(None, sign, |sign| sign.message_update(part));
            }
            let work = |part: &[u8], out: Output<'_>| {
                owner.message(None, sign, |sign| sign.sign_message_end(part, out))
            };
            // SAFETY: the contract of PKCS#11 for pDataPart and pSignature with their lengths.
            unsafe { transform(part, signature, work) }
        });
        cancel_refused(outcome, || sign.message_cancel())
    })
}

functions!(message_verify, message_verify_init: C_MessageVerifyInit, C_VerifyMessageBegin, C_MessageVerifyFinal);

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
    call_session(handle, |session| {
        no_parameter(parameter_len)?;
        // SAFETY: the contract of PKCS#11 for pData and pSignature.
        let (data, signature) =
            unsafe { (In(data, data_len).bytes()?, In(signature, signature_len).bytes()?) };
        let (owner, operations) = session.split();
        owner.message(Some("C_VerifyMessage"), &mut operations.message_verify, |verify| {
            verify.verify_message(data, signature)
        })
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
    call_session(handle, |session| {
        let (owner, operations) = session.split();
        let verify = &mut operations.message_verify;
        let outcome = no_parameter(parameter_len).and_then(|()| {
            // SAFETY: the contract of PKCS#11 for pDataPart.
            let part = unsafe { In(part, part_len).bytes() }?;
            // "The pSignature argument is set to NULL if there is more data part to follow."
            if signature.is_null() {
                return owner.message(None, verify, |verify| verify.message_update(part));
            }
            // SAFETY: the contract of PKCS#11 for pSignature.
            let signature = unsafe { In(signature, signature_len).bytes() }?;
            owner.message(None, verify, |verify| verify.verify_message_end(part, signature))
        });
        cancel_refused(outcome, || verify.message_cancel())
    })
}
