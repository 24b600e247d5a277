//! "Key management functions": derivation.

use cryptoki_sys::{CK_ATTRIBUTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};

use crate::call::call_in;
use crate::input::template;
use crate::number::{object, session};
use crate::params::{Places, mechanism};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DeriveKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    base: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pMechanism and phKey. `mechanism` comes from
        // pMechanism.
        let mut places = unsafe { Places::of(given, &mechanism, key) }?;
        let derived = module.derive(session(handle), &mechanism, object(base), &template, places.more());
        // SAFETY: the contract of PKCS#11 for phKey and the places in pMechanism.
        unsafe { places.put(derived) }
    })
}
