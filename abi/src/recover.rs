//! Signatures with recovery of the data: `C_SignRecover*` of "Signing and MACing functions",
//! `C_VerifyRecover*` of "Functions for verifying signatures and MACs".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::Entry;
use crate::operation::{function, init};

init!(C_SignRecoverInit, sign_recover_init);
function!(transform C_SignRecover, sign_recover);
init!(C_VerifyRecoverInit, verify_recover_init);
function!(transform C_VerifyRecover, verify_recover);
