//! "Message-based encryption functions" and "Message-based decryption functions".

use std::ffi::c_void;

use cryptoki_sys::{
    CK_BYTE, CK_FLAGS, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKF_END_OF_MESSAGE,
};
use jeton_words::error::{Error, require};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, Failure, answered};
use crate::ck_ulong::object;
use crate::input::{In, Out, transform};
use crate::operation::function;
use crate::params::message::{Message, Nonce, Tag, message_mechanism, read_message};

/// Defines the functions of a direction. "The ulIvFixedBits and ivGenerator fields are ignored" by
/// the decryption.
macro_rules! direction {
    (
        $nonce:expr, $tag:expr;
        $init:ident $init_method:ident, $one:ident $one_method:ident, $begin:ident $begin_method:ident,
        $next:ident $next_method:ident, $end:ident $end_method:ident
    ) => {
        pub unsafe fn $init<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            entry.call_in(Function::$init, handle, |token, session| {
                if given.is_null() {
                    return answered(token.clear(session, Function::$init));
                }
                // SAFETY: the contract of PKCS#11 for pMechanism.
                let mechanism = unsafe { message_mechanism(given) }?;
                answered(token.$init_method(session, &mechanism, object(key)))
            })
        }

        /// A message in a single part.
        pub unsafe fn $one<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            aad: *mut CK_BYTE,
            aad_len: CK_ULONG,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let (data, out) = (In(input, input_len), Out(output, output_len));
            // SAFETY: the contract of PKCS#11. No slice of the memory in the parameter is in use
            // when the nonce and the tag are written.
            entry.call_in(Function::$one, handle, |token, session| unsafe {
                let cipher = token.message_cipher(session, Function::$one);
                let mut message = Message::empty();
                read_message(&mut message, cipher, (parameter, parameter_len), $nonce, $tag)?;
                let aad = In(aad, aad_len).bytes()?;
                transform(data, out, |data, out| {
                    token.$one_method(session, &mut message.params, aad, data, out)
                })?;
                // A call that asks for the length changes nothing.
                if !output.is_null() {
                    message.write();
                }
                Ok(())
            })
        }

        /// Begins a message in several parts.
        pub unsafe fn $begin<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            aad: *mut CK_BYTE,
            aad_len: CK_ULONG,
        ) -> CK_RV {
            // SAFETY: as in a single part.
            entry.call_in(Function::$begin, handle, |token, session| unsafe {
                let cipher = token.message_cipher(session, Function::$begin);
                let mut message = Message::empty();
                read_message(&mut message, cipher, (parameter, parameter_len), $nonce, Tag::Later)?;
                let aad = In(aad, aad_len).bytes()?;
                answered(token.$begin_method(session, &mut message.params, aad))?;
                message.write();
                Ok(())
            })
        }

        /// A part of a message. Reads the parameter only with the last part, for the tag: the
        /// nonce was read when the message began.
        pub unsafe fn $next<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
            flags: CK_FLAGS,
        ) -> CK_RV {
            let (part, out) = (In(input, input_len), Out(output, output_len));
            if flags != CKF_END_OF_MESSAGE {
                // SAFETY: the contract of PKCS#11 for the two parts with their lengths.
                return entry.call_in(Function::$next, handle, |token, session| unsafe {
                    require(flags == 0, Error::ArgumentsBad).map_err(Failure::Argument)?;
                    transform(part, out, |part, out| token.$next_method(session, part, out))
                });
            }
            // SAFETY: as in a single part.
            entry.call_in(Function::$end, handle, |token, session| unsafe {
                let cipher = token.message_cipher(session, Function::$end);
                let mut message = Message::empty();
                read_message(&mut message, cipher, (parameter, parameter_len), $nonce, $tag)?;
                transform(part, out, |part, out| token.$end_method(session, &mut message.params, part, out))?;
                if !output.is_null() {
                    message.write();
                }
                Ok(())
            })
        }
    };
}

direction! {
    Nonce::Generated, Tag::Write;
    C_MessageEncryptInit message_encrypt_init, C_EncryptMessage encrypt_message,
    C_EncryptMessageBegin encrypt_message_begin, C_EncryptMessageNext encrypt_message_next,
    C_EncryptMessageEnd encrypt_message_end
}
function!(session C_MessageEncryptFinal, message_encrypt_final);

direction! {
    Nonce::Given, Tag::Read;
    C_MessageDecryptInit message_decrypt_init, C_DecryptMessage decrypt_message,
    C_DecryptMessageBegin decrypt_message_begin, C_DecryptMessageNext decrypt_message_next,
    C_DecryptMessageEnd decrypt_message_end
}
function!(session C_MessageDecryptFinal, message_decrypt_final);
