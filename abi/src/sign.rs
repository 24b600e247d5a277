//! "Signing and MACing functions". Data is copied for the core only if input and output overlap.

use std::ptr::null;

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{function, init, sign};
use crate::params::mechanism;

init!(C_SignInit, sign, mechanism, Session::sign_init);
function!(sign C_Sign, Operation::sign);
function!(consume C_SignUpdate, sign, Operation::update);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SignFinal(
    handle: CK_SESSION_HANDLE,
    output: *mut CK_BYTE,
    output_len: *mut CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for the buffer and its length.
    call_session(handle, |session| unsafe {
        sign(session, In(null(), 0), Out(output, output_len), |sign, _, out| sign.sign_final(out))
    })
}
