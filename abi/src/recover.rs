//! Signatures with recovery of the data: `C_SignRecover*` of "Signing and MACing functions",
//! `C_VerifyRecover*` of "Functions for verifying signatures and MACs".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::functions::Output;
use jeton::session::{Operation, Session, Signing};

use crate::operation::{function, init};
use crate::params::mechanism;

init!(C_SignRecoverInit, sign_recover, mechanism, Session::sign_recover_init);
function!(transform C_SignRecover, sign_recover, |sign: &mut Operation<Signing>, data: &[u8], out: Output<'_>| {
    sign.sign(data, out).map(|signed| signed.length())
});
init!(C_VerifyRecoverInit, verify_recover, mechanism, Session::verify_recover_init);
function!(transform C_VerifyRecover, verify_recover, Operation::recover);
