//! "Encryption functions" and "Decryption functions". Data is copied for the token only if input
//! and output overlap.

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::operation::{CryptMechanism, CryptParams};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::ck_ulong::object;
use crate::operation::function;
use crate::params::Given;

/// Defines an `Init` function. The parameter of GCM is not copied.
macro_rules! init {
    ($name:ident, $method:ident) => {
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            entry.call_in(Function::$name, handle, |token, session| {
                if given.is_null() {
                    return answered(token.clear(session, Function::$name));
                }
                // SAFETY: the contract of PKCS#11 for pMechanism.
                let given = unsafe { Given::read(given) }?;
                let parsed;
                // SAFETY: the contract of PKCS#11 for pMechanism.
                let params = match unsafe { given.gcm() }? {
                    Some(gcm) => CryptParams::Gcm(gcm),
                    None => {
                        // SAFETY: the contract of PKCS#11 for pMechanism.
                        parsed = unsafe { given.parse() }?;
                        CryptParams::Parsed(&parsed)
                    }
                };
                let mechanism = CryptMechanism { info: given.info, params };
                answered(token.$method(session, mechanism, object(key)))
            })
        }
    };
}

init!(C_EncryptInit, encrypt_init);
function!(transform C_Encrypt, encrypt);
function!(transform C_EncryptUpdate, encrypt_update);
function!(produce C_EncryptFinal, encrypt_final);

init!(C_DecryptInit, decrypt_init);
function!(transform C_Decrypt, decrypt);
function!(transform C_DecryptUpdate, decrypt_update);
function!(produce C_DecryptFinal, decrypt_final);
