//! "Key management functions": derivation.

use cryptoki_sys::{CK_ATTRIBUTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};

use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::object;
use crate::input::template;
use crate::params::{Places, mechanism};

pub unsafe fn C_DeriveKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    base: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_DeriveKey, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pMechanism and phKey. `mechanism` comes from
        // pMechanism.
        let mut places = unsafe { Places::of(given, &mechanism, key) }?;
        let derived = token.derive(session, &mechanism, object(base), &template, places.more());
        // SAFETY: the contract of PKCS#11 for phKey and the places in pMechanism.
        answered(unsafe { places.put(derived) })
    })
}
