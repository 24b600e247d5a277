//! "Signing and MACing functions". Data is copied for the token only if input and output overlap.

use std::ptr::null;

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::Entry;
use crate::input::{In, Out, transform};
use crate::operation::{function, init};
use crate::otp::written;

init!(C_SignInit, sign_init);

pub unsafe fn C_Sign<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let (data, output) = (In(data, data_len), Out(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pData and pSignature with their lengths.
    entry.call_in(Function::C_Sign, handle, |token, session| unsafe {
        transform(data, output, |data, out| Ok(written(token.sign(session, data, out)?, signature)))
    })
}

function!(consume C_SignUpdate, sign_update);

pub unsafe fn C_SignFinal<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    let (none, output) = (In(null(), 0), Out(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pSignature with its length.
    entry.call_in(Function::C_SignFinal, handle, |token, session| unsafe {
        transform(none, output, |_, out| Ok(written(token.sign_final(session, out)?, signature)))
    })
}
