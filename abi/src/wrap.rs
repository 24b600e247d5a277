//! "Key management functions": wrapping and unwrapping.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG,
};
use jeton::functions::Output;
use jeton_words::token::Token;

use crate::call::call_in;
use crate::input::{In, Out, Place, produce, template};
use crate::number::{narrow, object, session};
use crate::params::wrap::{mechanism_that_unwraps, mechanism_that_wraps};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_WrapKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    wrapping: CK_OBJECT_HANDLE,
    key: CK_OBJECT_HANDLE,
    wrapped: *mut CK_BYTE,
    wrapped_len: *mut CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let (mechanism, mut message) = unsafe { mechanism_that_wraps(given) }?;
        let (session, wrapping, key) = (session(handle), object(wrapping), object(key));
        let work = |out: Output<'_>| {
            let params = message.as_mut().map(|message| &mut message.params);
            Token::wrap_key(module, session, &mechanism, params, wrapping, key, out)
        };
        // SAFETY: the contract of PKCS#11 for pWrappedKey with its length, and for the nonce in the
        // parameter. No slice of that memory is in use when the nonce is written.
        unsafe {
            produce(Out(wrapped, wrapped_len), work)?;
            // A call that asks for the length does not write the nonce.
            if let Some(message) = message.filter(|_| !wrapped.is_null()) {
                message.write_nonce();
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_UnwrapKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    unwrapping: CK_OBJECT_HANDLE,
    wrapped: *mut CK_BYTE,
    wrapped_len: CK_ULONG,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism_that_unwraps(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pWrappedKey.
        let wrapped = unsafe { In(wrapped, wrapped_len).bytes() }?;
        let key = module.unwrap_key(session(handle), &mechanism, object(unwrapping), wrapped, &template)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
