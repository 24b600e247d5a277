//! "Key management functions": encapsulation and decapsulation.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG,
};

use crate::call::call_in;
use crate::input::{In, Out, Place, produce, template};
use crate::number::{narrow, object, session};
use crate::params::mechanism;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_EncapsulateKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    public: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: *mut CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // A call that asks for the length makes no key. It needs no pointer for a key handle.
        let place = if ciphertext.is_null() { None } else { Some(Place::at(key)?) };
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        let (session, public) = (session(handle), object(public));
        let mut made = None;
        // SAFETY: the contract of PKCS#11 for pCiphertext and its length.
        unsafe {
            produce(Out(ciphertext, ciphertext_len), |out| {
                let (len, key) = module.encapsulate_key(session, &mechanism, public, &template, out)?;
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

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_DecapsulateKey(
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    private: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    ciphertext: *mut CK_BYTE,
    ciphertext_len: CK_ULONG,
    key: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        let place = Place::at(key)?;
        // SAFETY: the contract of PKCS#11 for pMechanism and pTemplate.
        let (mechanism, template) = unsafe { (mechanism(given)?, template(attributes, count)?) };
        // SAFETY: the contract of PKCS#11 for pCiphertext.
        let ciphertext = unsafe { In(ciphertext, ciphertext_len).bytes() }?;
        let key =
            module.decapsulate_key(session(handle), &mechanism, object(private), &template, ciphertext)?;
        // SAFETY: the contract of PKCS#11 for phKey.
        unsafe { place.put(narrow(key.0)) };
        Ok(())
    })
}
