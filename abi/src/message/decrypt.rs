//! "Message-based decryption functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::backend::Direction;

use super::crypt::{self, Parameter};
use crate::input::{In, Out};

const DIRECTION: Direction = Direction::Decrypt;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageDecryptInit(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11.
    unsafe { crypt::init(DIRECTION, handle, given, key) }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the specification's")]
pub(crate) unsafe extern "C" fn C_DecryptMessage(
    handle: CK_SESSION_HANDLE,
    parameter: *mut c_void,
    parameter_len: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: CK_ULONG,
    plaintext: *mut CK_BYTE,
    plaintext_len: *mut CK_ULONG,
) -> CK_RV {
    let parameter = Parameter(parameter, parameter_len);
    let (aad, data, out) = (In(aad, aad_len), In(ciphertext, ciphertext_len), Out(plaintext, plaintext_len));
    // SAFETY: the contract of PKCS#11.
    unsafe { crypt::whole(DIRECTION, handle, parameter, aad, data, out) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecryptMessageBegin(
    handle: CK_SESSION_HANDLE,
    parameter: *mut c_void,
    parameter_len: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11.
    unsafe { crypt::begin(DIRECTION, handle, Parameter(parameter, parameter_len), In(aad, aad_len)) }
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the specification's")]
pub(crate) unsafe extern "C" fn C_DecryptMessageNext(
    handle: CK_SESSION_HANDLE,
    parameter: *mut c_void,
    parameter_len: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: CK_ULONG,
    plaintext: *mut CK_BYTE,
    plaintext_len: *mut CK_ULONG,
    flags: CK_FLAGS,
) -> CK_RV {
    let parameter = Parameter(parameter, parameter_len);
    let (part, out) = (In(ciphertext, ciphertext_len), Out(plaintext, plaintext_len));
    // SAFETY: the contract of PKCS#11.
    unsafe { crypt::next(DIRECTION, handle, parameter, part, out, flags) }
}

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_MessageDecryptFinal(handle: CK_SESSION_HANDLE) -> CK_RV {
    crypt::finish(DIRECTION, handle)
}
