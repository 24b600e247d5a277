//! The function lists and interfaces.

use cryptoki_sys::*;

use crate::asynchronous::*;
use crate::crypt::*;
use crate::derive::*;
use crate::digest::*;
use crate::dual::*;
use crate::find::*;
use crate::info::C_GetInfo;
use crate::init::*;
use crate::kem::*;
use crate::key::*;
use crate::message::*;
use crate::object::*;
use crate::parallel::*;
use crate::random::*;
use crate::recover::*;
use crate::session::*;
use crate::sign::*;
use crate::slot::*;
use crate::verify::*;
use crate::verify_signature::*;
use crate::wrap::*;
use crate::wrap_authenticated::*;

jeton_names::function_lists!();

/// Returns the functions of PKCS#11 3.2, for programs that link this library.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    &LIST_3_2
}
