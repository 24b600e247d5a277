//! "Message digesting functions".

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::session::Operation;

use crate::call::{call_in, call_session};
use crate::number::{object, session};
use crate::operation::{cancel, function};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestInit(handle: CK_SESSION_HANDLE, given: *mut CK_MECHANISM) -> CK_RV {
    call_session(handle, |session| {
        if given.is_null() {
            return cancel(&mut session.operations.digest);
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        session.digest_init(&mechanism)
    })
}

function!(transform C_Digest, digest, Operation::digest);
function!(consume C_DigestUpdate, digest, Operation::update);

/// # Safety
///
/// None: no pointer is passed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DigestKey(handle: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) -> CK_RV {
    call_in(handle, |module| module.digest_key(session(handle), object(key)))
}

function!(produce C_DigestFinal, digest, Operation::digest_final);
