//! "Key management functions": wrapping and unwrapping with associated data.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG,
};
use jeton_words::operation::Output;
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{narrow, object};
use crate::input::{In, Out, Place, produce, template};
use crate::params::message::{Nonce, Tag, mechanism_with_message};

pub unsafe fn C_WrapKeyAuthenticated<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    wrapping: CK_OBJECT_HANDLE,
    key: CK_OBJECT_HANDLE,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
    wrapped: *mut CK_BYTE,
    wrapped_len: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_WrapKeyAuthenticated, handle, |token, session| {
        let (wrapping, key) = (object(wrapping), object(key));
        // SAFETY: the contract of PKCS#11 for pMechanism, pAssociatedData, and pWrappedKey with its
        // length. No slice of them is in use when the parameter is written.
        unsafe {
            let (mechanism, mut message) = mechanism_with_message(given, Nonce::Generated, Tag::Write)?;
            let aad = In(aad, aad_len).bytes()?;
            let params = &mut message.params;
            let work = |out: Output<'_>| {
                token.wrap_key_authenticated(session, &mechanism, params, aad, wrapping, key, out)
            };
            produce(Out(wrapped, wrapped_len), work)?;
            // A call that asks for the length changes nothing.
            if !wrapped.is_null() {
                message.write();
            }
        }
        Ok(())
    })
}

pub unsafe fn C_UnwrapKeyAuthenticated<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    unwrapping: CK_OBJECT_HANDLE,
    wrapped: *mut CK_BYTE,
    wrapped_len: CK_ULONG,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_UnwrapKeyAuthenticated, handle, |token, session| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (given, template) = unsafe {
            (mechanism_with_message(given, Nonce::Given, Tag::Read)?, template(attributes, count)?)
        };
        let (mechanism, mut message) = given;
        // SAFETY: the contract of PKCS#11 for pWrappedKey and pAssociatedData.
        let (wrapped, aad) = unsafe { (In(wrapped, wrapped_len).bytes()?, In(aad, aad_len).bytes()?) };
        let params = &mut message.params;
        let unwrapping = object(unwrapping);
        let key =
            token.unwrap_key_authenticated(session, &mechanism, params, aad, unwrapping, wrapped, &template);
        let key = answered(key)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
