//! "Message-based signing and MACing functions" and "Message-based functions for verifying
//! signatures and MACs". No mechanism of these functions has a parameter for each message.

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::module::Output;
use jeton::session::{Operation, Session, Signing, Verifying};

use super::end_message;
use crate::call::{call_in, cancel_refused};
use crate::input::{In, Out, transform};
use crate::number::session;
use crate::operation::init;
use crate::params::message::no_parameter;

/// Defines the functions that signing and verifying share.
macro_rules! functions {
    ($operation:ident, $start:ident: $init:ident, $begin:ident, $final:ident) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $init(
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            // SAFETY: the contract of PKCS#11 for pMechanism.
            unsafe { init(stringify!($init), (handle, given, key), $operation, Session::$start) }
        }

        /// # Safety
        ///
        /// None: no pointer is followed.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $begin(
            handle: CK_SESSION_HANDLE,
            _: *mut c_void,
            parameter_len: CK_ULONG,
        ) -> CK_RV {
            call_in(handle, |module| {
                no_parameter(parameter_len)?;
                let function = Some(stringify!($begin));
                module.message(session(handle), function, $operation, Operation::message_start)
            })
        }

        /// # Safety
        ///
        /// None: no pointer is passed.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $final(handle: CK_SESSION_HANDLE) -> CK_RV {
            call_in(handle, |module| {
                module.with_session(session(handle), |session| $operation(session).message_final())
            })
        }
    };
}

functions!(signing, message_sign_init: C_MessageSignInit, C_SignMessageBegin, C_MessageSignFinal);

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
            module.message(session(handle), function, signing, |sign| sign.sign_message(data, out))
        };
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
    call_in(handle, |module| {
        let session = session(handle);
        let part = In(part, part_len);
        let outcome = no_parameter(parameter_len).and_then(|()| {
            // "The pulSignatureLen argument is set to NULL if there is more data part to follow."
            if signature_len.is_null() {
                // SAFETY: the contract of PKCS#11 for pDataPart.
                let part = unsafe { part.bytes() }?;
                return module.message(session, None, signing, |sign| sign.message_update(part));
            }
            let signature = Out(signature, signature_len);
            let work = |part: &[u8], out: Output<'_>| {
                module.message(session, None, signing, |sign| sign.sign_message_end(part, out))
            };
            // SAFETY: the contract of PKCS#11 for pDataPart and pSignature with their lengths.
            unsafe { transform(part, signature, work) }
        });
        cancel_refused(outcome, || end_message(module, session, signing))
    })
}

fn signing(session: &mut Session) -> &mut Operation<Signing> {
    &mut session.operations.message_sign
}

functions!(verifying, message_verify_init: C_MessageVerifyInit, C_VerifyMessageBegin, C_MessageVerifyFinal);

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
        module.message(session(handle), function, verifying, |verify| verify.verify_message(data, signature))
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
                return module.message(session, None, verifying, |verify| verify.message_update(part));
            }
            // SAFETY: the contract of PKCS#11 for pSignature.
            let signature = unsafe { In(signature, signature_len).bytes() }?;
            module.message(session, None, verifying, |verify| verify.verify_message_end(part, signature))
        });
        cancel_refused(outcome, || end_message(module, session, verifying))
    })
}

fn verifying(session: &mut Session) -> &mut Operation<Verifying> {
    &mut session.operations.message_verify
}
