//! "Key management functions": derivation.

use cryptoki_sys::*;

use crate::call::call;
use crate::input::{Place, template};
use crate::number::{narrow, object, session};
use crate::params::mechanism_given;

/// # Safety
///
/// The contract of PKCS#11.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DeriveKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    base: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|module| {
        // Mechanisms that give their keys out in the parameter, as those of TLS do, have no use for phKey. None is here.
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (with, template) = unsafe { (mechanism_given(given)?, template(attributes, count)?) };
        let key = module.derive_key(session(handle), &with, object(base), &template)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
