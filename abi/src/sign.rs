//! "Signing and MACing functions". Data is copied for the core only if input and output overlap.

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::session::{Operation, Session};

use crate::operation::{function, init};
use crate::params::mechanism;

init!(C_SignInit, sign, mechanism, Session::sign_init);
function!(transform C_Sign, sign, Operation::sign);
function!(consume C_SignUpdate, sign, Operation::update);
function!(produce C_SignFinal, sign, Operation::sign_final);
