//! "Message digesting functions".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::object;
use crate::operation::function;
use crate::params::mechanism;

pub unsafe fn C_DigestInit<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
) -> CK_RV {
    entry.call_in(Function::C_DigestInit, handle, |token, session| {
        if given.is_null() {
            return answered(token.clear(session, Function::C_DigestInit));
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        answered(token.digest_init(session, &mechanism))
    })
}

function!(transform C_Digest, digest);
function!(consume C_DigestUpdate, digest_update);

/// # Safety
///
/// None: no pointer is passed.
pub unsafe fn C_DigestKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_DigestKey, handle, |token, session| {
        answered(token.digest_key(session, object(key)))
    })
}

function!(produce C_DigestFinal, digest_final);
