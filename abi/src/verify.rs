//! "Functions for verifying signatures and MACs".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::input::In;
use crate::operation::{function, init};

init!(C_VerifyInit, verify_init);

pub unsafe fn C_Verify<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    data: *mut CK_BYTE,
    data_len: CK_ULONG,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_Verify, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pData and pSignature.
        let (data, signature) =
            unsafe { (In(data, data_len).bytes()?, In(signature, signature_len).bytes()?) };
        answered(token.verify(session, data, signature))
    })
}

function!(consume C_VerifyUpdate, verify_update);
function!(consume C_VerifyFinal, verify_final);
