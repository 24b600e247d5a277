//! "Key management functions": encapsulation and decapsulation.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG,
};

use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::{narrow, object};
use crate::input::{In, Out, Place, produce, template};
use crate::params::mechanism;

pub unsafe fn C_EncapsulateKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    public: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: *mut CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_EncapsulateKey, handle, |token, session| {
        // A call that asks for the length makes no key. It needs no pointer for a key handle.
        let place = if ciphertext.is_null() { None } else { Some(Place::at(key)?) };
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        let public = object(public);
        let mut made = None;
        // SAFETY: the contract of PKCS#11 for pCiphertext and its length.
        unsafe {
            produce(Out(ciphertext, ciphertext_len), |out| {
                let (len, key) = token.encapsulate_key(session, &mechanism, public, &template, out)?;
                made = key;
                Ok(len)
            })
        }?;
        if let (Some(place), Some(key)) = (place, made) {
            // SAFETY: the contract of PKCS#11 for phKey.
            unsafe { place.put(narrow(key.0)) };
        }
        Ok(())
    })
}

pub unsafe fn C_DecapsulateKey<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    private: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_DecapsulateKey, handle, |token, session| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pCiphertext.
        let ciphertext = unsafe { In(ciphertext, ciphertext_len).bytes() }?;
        let key = token.decapsulate_key(session, &mechanism, object(private), &template, ciphertext);
        let key = answered(key)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
