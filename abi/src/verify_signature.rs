//! `C_VerifySignature*` of "Functions for verifying signatures and MACs": the caller passes the
//! signature before the data.

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::object;
use crate::input::In;
use crate::operation::function;
use crate::params::mechanism;

pub unsafe fn C_VerifySignatureInit<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    signature: *mut CK_BYTE,
    signature_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_VerifySignatureInit, handle, |token, session| {
        if given.is_null() {
            return answered(token.clear(session, Function::C_VerifySignatureInit));
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        // SAFETY: the contract of PKCS#11 for pSignature.
        let signature = unsafe { In(signature, signature_len).bytes() }?;
        answered(token.verify_signature_init(session, &mechanism, object(key), signature))
    })
}

function!(consume C_VerifySignature, verify_signature);
function!(consume C_VerifySignatureUpdate, verify_signature_update);
function!(session C_VerifySignatureFinal, verify_signature_final);
