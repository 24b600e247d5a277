//! "Key management functions": generation.

use cryptoki_sys::{CK_ATTRIBUTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::asynchronous::Started;
use jeton_words::error::{Error, Result};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered, in_template};
use crate::ck_ulong::narrow;
use crate::input::{Place, template};
use crate::params::mechanism;

pub unsafe fn C_GenerateKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_GenerateKey, handle, |token, session| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        let key = token.generate_key(session, &mechanism, &template);
        let key = answered(key.map_err(in_template).and_then(completed))?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}

pub unsafe fn C_GenerateKeyPair<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    public: *mut CK_ATTRIBUTE,
    public_count: CK_ULONG,
    private: *mut CK_ATTRIBUTE,
    private_count: CK_ULONG,
    public_key: *mut CK_OBJECT_HANDLE,
    private_key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_GenerateKeyPair, handle, |token, session| {
        let (public_place, private_place) = (Place::at(public_key)?, Place::at(private_key)?);
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { mechanism(given) }?;
        // SAFETY: the contract of PKCS#11 for the two templates.
        let (public, private) =
            unsafe { (template(public, public_count)?, template(private, private_count)?) };
        let pair = token.generate_key_pair(session, &mechanism, &public, &private);
        let (public, private) = answered(pair.map_err(in_template).and_then(completed))?;
        // SAFETY: the contract of PKCS#11 for phPublicKey and phPrivateKey.
        unsafe {
            public_place.put(narrow(public.0));
            private_place.put(narrow(private.0));
        }
        Ok(())
    })
}

/// Returns the result of a function. Fails with `Pending` if the function is pending, because
/// `CKR_PENDING` is not `CKR_OK`.
fn completed<T>(started: Started<T>) -> Result<T> {
    match started {
        Started::Done(done) => Ok(done),
        Started::Pending => Err(Error::Pending),
    }
}
