//! "Message-based encryption functions" and "Message-based decryption functions".

use std::ffi::c_void;

use cryptoki_sys::{
    CK_BYTE, CK_FLAGS, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKF_END_OF_MESSAGE,
};
use jeton_words::error::Error;
use jeton_words::token::{Function, Token};

use crate::call::{Entry, Failure, answered};
use crate::input::{In, Out, transform};
use crate::number::object;
use crate::operation::function;
use crate::params::message::{Message, Nonce, Tag, message_mechanism, read_message};

/// Defines an `Init` function.
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
                let mechanism = unsafe { message_mechanism(given) }?;
                answered(token.$method(session, &mechanism, object(key)))
            })
        }
    };
}

init!(C_MessageEncryptInit, message_encrypt_init);
function!(session C_MessageEncryptFinal, message_encrypt_final);

/// Encrypts a message in a single part.
pub unsafe fn C_EncryptMessage<T: Token>(
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
    // SAFETY: the contract of PKCS#11. No slice of the memory in the parameter is in use when the
    // nonce and the tag are written.
    entry.call_in(Function::C_EncryptMessage, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_EncryptMessage);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Generated,
            Tag::Write,
        )?;
        let aad = In(aad, aad_len).bytes()?;
        transform(data, out, |data, out| {
            token.encrypt_message(session, &mut message.params, aad, data, out)
        })?;
        // A call that asks for the length changes nothing.
        if !output.is_null() {
            message.write_nonce();
            message.write_tag();
        }
        Ok(())
    })
}

/// Begins a message in several parts.
pub unsafe fn C_EncryptMessageBegin<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    parameter: *mut c_void,
    parameter_len: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11. No slice of the memory in the parameter is in use when the
    // nonce is written.
    entry.call_in(Function::C_EncryptMessageBegin, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_EncryptMessageBegin);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Generated,
            Tag::Later,
        )?;
        let aad = In(aad, aad_len).bytes()?;
        answered(token.encrypt_message_begin(session, &mut message.params, aad))?;
        message.write_nonce();
        Ok(())
    })
}

/// Encrypts a part of a message. Reads the parameter only with the last part, for the tag: the
/// nonce was read when the message began.
pub unsafe fn C_EncryptMessageNext<T: Token>(
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
        // SAFETY: the contract of PKCS#11 for pPlaintextPart and pCiphertextPart with their
        // lengths.
        return entry.call_in(Function::C_EncryptMessageNext, handle, |token, session| unsafe {
            no_flags(flags)?;
            transform(part, out, |part, out| token.encrypt_message_next(session, part, out))
        });
    }
    // SAFETY: the contract of PKCS#11. No slice of the memory in the parameter is in use when the
    // tag is written.
    entry.call_in(Function::C_EncryptMessageEnd, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_EncryptMessageEnd);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Generated,
            Tag::Write,
        )?;
        transform(part, out, |part, out| token.encrypt_message_end(session, &mut message.params, part, out))?;
        // A call that asks for the length changes nothing.
        if !output.is_null() {
            message.write_tag();
        }
        Ok(())
    })
}

init!(C_MessageDecryptInit, message_decrypt_init);
function!(session C_MessageDecryptFinal, message_decrypt_final);

/// Decrypts a message in a single part. "The ulIvFixedBits and ivGenerator fields are ignored."
pub unsafe fn C_DecryptMessage<T: Token>(
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
    // SAFETY: the contract of PKCS#11.
    entry.call_in(Function::C_DecryptMessage, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_DecryptMessage);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Given,
            Tag::Read,
        )?;
        let aad = In(aad, aad_len).bytes()?;
        transform(data, out, |data, out| token.decrypt_message(session, &mut message.params, aad, data, out))
    })
}

/// Begins a message in several parts.
pub unsafe fn C_DecryptMessageBegin<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    parameter: *mut c_void,
    parameter_len: CK_ULONG,
    aad: *mut CK_BYTE,
    aad_len: CK_ULONG,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11.
    entry.call_in(Function::C_DecryptMessageBegin, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_DecryptMessageBegin);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Given,
            Tag::Later,
        )?;
        let aad = In(aad, aad_len).bytes()?;
        answered(token.decrypt_message_begin(session, &mut message.params, aad))
    })
}

/// Decrypts a part of a message. Reads the parameter only with the last part, as
/// [`C_EncryptMessageNext`] does.
pub unsafe fn C_DecryptMessageNext<T: Token>(
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
        // SAFETY: the contract of PKCS#11 for pCiphertextPart and pPlaintextPart with their
        // lengths.
        return entry.call_in(Function::C_DecryptMessageNext, handle, |token, session| unsafe {
            no_flags(flags)?;
            transform(part, out, |part, out| token.decrypt_message_next(session, part, out))
        });
    }
    // SAFETY: the contract of PKCS#11.
    entry.call_in(Function::C_DecryptMessageEnd, handle, |token, session| unsafe {
        let mut message = Message::empty();
        let cipher = token.message_cipher(session, Function::C_DecryptMessageEnd);
        read_message(
            &mut message,
            cipher.ok_or(Error::MechanismParamInvalid)?,
            (parameter, parameter_len),
            Nonce::Given,
            Tag::Read,
        )?;
        transform(part, out, |part, out| token.decrypt_message_end(session, &mut message.params, part, out))
    })
}

fn no_flags(flags: CK_FLAGS) -> Result<(), Failure> {
    if flags == 0 { Ok(()) } else { Err(Failure::Argument(Error::ArgumentsBad)) }
}
