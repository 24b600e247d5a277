//! "Functions for verifying signatures and MACs".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::input::In;
use crate::operation::{consume_both, function, init};
use crate::params::mechanism;

init!(C_VerifyInit, verify, mechanism, Session::verify_init);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_Verify(
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    let inputs = (In(data, data_len), In(signature, signature_len));
    // SAFETY: the contract of PKCS#11 for pData and pSignature.
    call_session(handle, |session| unsafe {
        consume_both(&mut session.operations.verify, inputs, Operation::verify)
    })
}

function!(consume C_VerifyUpdate, verify, Operation::update);
function!(consume C_VerifyFinal, verify, Operation::verify_final);
