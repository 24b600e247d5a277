//! "Key management functions": wrapping and unwrapping.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG,
};
use jeton_words::operation::Output;
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{narrow, object};
use crate::input::{In, Out, Place, produce, template};
use crate::params::wrap::{mechanism_that_unwraps, mechanism_that_wraps};

pub unsafe fn C_WrapKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    wrapping: CK_OBJECT_HANDLE,
    key: CK_OBJECT_HANDLE,
    wrapped: *mut CK_BYTE,
    wrapped_len: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_WrapKey, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let (mechanism, mut message) = unsafe { mechanism_that_wraps(given) }?;
        let (wrapping, key) = (object(wrapping), object(key));
        let work = |out: Output<'_>| {
            let params = message.as_mut().map(|message| &mut message.params);
            token.wrap_key(session, &mechanism, params, wrapping, key, out)
        };
        // SAFETY: the contract of PKCS#11 for pWrappedKey with its length, and for the nonce in the
        // parameter. No slice of that memory is in use when the nonce is written.
        unsafe {
            produce(Out(wrapped, wrapped_len), work)?;
            // A call that asks for the length does not write the nonce.
            if let Some(message) = message.filter(|_| !wrapped.is_null()) {
                message.write();
            }
        }
        Ok(())
    })
}

pub unsafe fn C_UnwrapKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    unwrapping: CK_OBJECT_HANDLE,
    wrapped: *mut CK_BYTE,
    wrapped_len: CK_ULONG,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_UnwrapKey, handle, |token, session| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism_that_unwraps(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pWrappedKey.
        let wrapped = unsafe { In(wrapped, wrapped_len).bytes() }?;
        let key = token.unwrap_key(session, &mechanism, object(unwrapping), wrapped, &template);
        let key = answered(key)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
