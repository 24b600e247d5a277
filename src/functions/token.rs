//! The module as the C interface and the agent call it: the functions of PKCS#11 with arguments
//! that were read and checked. A function of an operation calls a session in one line, so it is
//! here. The other functions are in the files of their chapters.

use jeton_secret::Secret;
use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
use jeton_words::bounded::List;
use jeton_words::derive::{Additional, Derived};
use jeton_words::general::Threads;
use jeton_words::operation::Signed;
use jeton_words::session::SessionInfo;
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo};
use jeton_words::token::{Attributes, Function, Token};
use jeton_words::{argument, functions};

use super::Module;
use crate::backend::AeadScheme;
use crate::backend::Direction::{Decrypt, Encrypt};
use crate::error::{Error, Result};
use crate::id::{MechanismType, ObjectHandle, SessionHandle, SlotId};
use crate::mechanism::Mechanism;
use crate::object::template::Template;
use crate::session::{Operation, Session};

/// Defines methods that call a session. An entry has the arguments with their kinds (see
/// [`argument`]), the answer, and what the session does. Inlined, because the budget of a signature
/// is 600 instructions.
macro_rules! operations {
    ($($method:ident($session:ident $(, $argument:ident: $kind:ident)*) -> $answer:ty = $work:expr;)*) => {
        impl Module {
            $(
                #[inline]
                #[doc = concat!("Calls a session: see [`Token::", stringify!($method), "`].")]
                pub fn $method(&self, session: SessionHandle $(, $argument: argument!($kind))*) -> Result<$answer> {
                    self.with_session(session, |$session| $work)
                }
            )*
        }
    };
}

operations! {
    digest_init(session, mechanism: Mechanism) -> () = session.digest_init(mechanism);
    digest(session, data: Bytes, out: Output) -> usize = session.operations.digest.digest(data, out);
    digest_update(session, part: Bytes) -> () = session.operations.digest.update(part);
    digest_final(session, out: Output) -> usize = session.operations.digest.digest_final(out);

    encrypt_init(session, mechanism: CryptMechanism, key: Object) -> () =
        session.start_crypt("C_EncryptInit", Encrypt, mechanism, key);
    encrypt(session, data: Bytes, out: Output) -> usize = session.operations.encrypt.crypt(data, out);
    encrypt_update(session, part: Bytes, out: Output) -> usize = session.crypt_update(Encrypt, part, out);
    encrypt_final(session, out: Output) -> usize = session.operations.encrypt.crypt_final(out);
    decrypt_init(session, mechanism: CryptMechanism, key: Object) -> () =
        session.start_crypt("C_DecryptInit", Decrypt, mechanism, key);
    decrypt(session, data: Bytes, out: Output) -> usize = session.operations.decrypt.crypt(data, out);
    decrypt_update(session, part: Bytes, out: Output) -> usize = session.crypt_update(Decrypt, part, out);
    decrypt_final(session, out: Output) -> usize = session.operations.decrypt.crypt_final(out);

    sign_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_SignInit", mechanism, key, Session::sign_init);
    sign(session, data: Bytes, out: Output) -> Signed = session.operations.sign.sign(data, out);
    sign_update(session, part: Bytes) -> () = session.operations.sign.update(part);
    sign_final(session, out: Output) -> Signed = session.operations.sign.sign_final(out);
    sign_recover_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_SignRecoverInit", mechanism, key, Session::sign_recover_init);
    sign_recover(session, data: Bytes, out: Output) -> usize =
        session.operations.sign_recover.sign(data, out).map(|signed| signed.length());

    verify_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_VerifyInit", mechanism, key, Session::verify_init);
    verify(session, data: Bytes, signature: Bytes) -> () = session.operations.verify.verify(data, signature);
    verify_update(session, part: Bytes) -> () = session.operations.verify.update(part);
    verify_final(session, signature: Bytes) -> () = session.operations.verify.verify_final(signature);
    verify_recover_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_VerifyRecoverInit", mechanism, key, Session::verify_recover_init);
    verify_recover(session, signature: Bytes, out: Output) -> usize =
        session.operations.verify_recover.recover(signature, out);
    verify_signature_init(session, mechanism: Mechanism, key: Object, signature: Bytes) -> () =
        session.start("C_VerifySignatureInit", mechanism, key, |session, mechanism, key| {
            session.verify_signature_init(mechanism, key, signature)
        });
    verify_signature(session, data: Bytes) -> () = session.operations.verify_signature.verify_signature(data);
    verify_signature_update(session, part: Bytes) -> () = session.operations.verify_signature.update(part);
    verify_signature_final(session) -> () = session.operations.verify_signature.verify_signature_final();

    digest_encrypt_update(session, part: Bytes, out: Output) -> usize = session.digest_encrypt_update(part, out);
    decrypt_digest_update(session, part: Bytes, out: Output) -> usize = session.decrypt_digest_update(part, out);
    sign_encrypt_update(session, part: Bytes, out: Output) -> usize = session.sign_encrypt_update(part, out);
    decrypt_verify_update(session, part: Bytes, out: Output) -> usize = session.decrypt_verify_update(part, out);
}

/// Defines the methods of the message-based functions of a direction.
macro_rules! crypt_messages {
    (
        $direction:ident, $operation:ident:
        $init:ident $message:ident $begin:ident $next:ident $end:ident $final:ident,
        $c_init:literal $c_message:literal $c_begin:literal
    ) => {
        operations! {
            $init(session, mechanism: Mechanism, key: Object) -> () =
                session.start($c_init, mechanism, key, |session, mechanism, key| {
                    session.message_crypt_init($direction, mechanism, key)
                });
            $message(session, params: Message, aad: Bytes, data: Bytes, out: Output) -> usize = {
                let (owner, operations) = session.split();
                owner.message(out.recorded($c_message), &mut operations.$operation, |operation| {
                    operation.crypt_message(params, aad, data, out)
                })
            };
            $begin(session, params: Message, aad: Bytes) -> () = {
                let (owner, operations) = session.split();
                owner.message(Some($c_begin), &mut operations.$operation, |operation| {
                    operation.crypt_message_begin(params, aad)
                })
            };
            $next(session, part: Bytes, out: Output) -> usize = {
                let (owner, operations) = session.split();
                owner.message(None, &mut operations.$operation, |operation| operation.crypt_message_part(part, out))
            };
            $end(session, params: Message, part: Bytes, out: Output) -> usize = {
                let (owner, operations) = session.split();
                owner.message(None, &mut operations.$operation, |operation| {
                    operation.crypt_message_end(params, part, out)
                })
            };
            $final(session) -> () = session.operations.$operation.message_final();
        }
    };
}

crypt_messages! {
    Encrypt, message_encrypt:
    message_encrypt_init encrypt_message encrypt_message_begin encrypt_message_next encrypt_message_end
    message_encrypt_final,
    "C_MessageEncryptInit" "C_EncryptMessage" "C_EncryptMessageBegin"
}

crypt_messages! {
    Decrypt, message_decrypt:
    message_decrypt_init decrypt_message decrypt_message_begin decrypt_message_next decrypt_message_end
    message_decrypt_final,
    "C_MessageDecryptInit" "C_DecryptMessage" "C_DecryptMessageBegin"
}

operations! {
    message_sign_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_MessageSignInit", mechanism, key, Session::message_sign_init);
    sign_message(session, data: Bytes, out: Output) -> usize = {
        let (owner, operations) = session.split();
        let function = out.recorded("C_SignMessage");
        owner.message(function, &mut operations.message_sign, |sign| sign.sign_message(data, out))
    };
    sign_message_begin(session) -> () = {
        let (owner, operations) = session.split();
        owner.message(Some("C_SignMessageBegin"), &mut operations.message_sign, Operation::message_start)
    };
    sign_message_next(session, part: Bytes) -> () = {
        let (owner, operations) = session.split();
        owner.message(None, &mut operations.message_sign, |sign| sign.message_update(part))
    };
    sign_message_end(session, part: Bytes, out: Output) -> usize = {
        let (owner, operations) = session.split();
        owner.message(None, &mut operations.message_sign, |sign| sign.sign_message_end(part, out))
    };
    message_sign_final(session) -> () = session.operations.message_sign.message_final();

    message_verify_init(session, mechanism: Mechanism, key: Object) -> () =
        session.start("C_MessageVerifyInit", mechanism, key, Session::message_verify_init);
    verify_message(session, data: Bytes, signature: Bytes) -> () = {
        let (owner, operations) = session.split();
        owner.message(Some("C_VerifyMessage"), &mut operations.message_verify, |verify| {
            verify.verify_message(data, signature)
        })
    };
    verify_message_begin(session) -> () = {
        let (owner, operations) = session.split();
        owner.message(Some("C_VerifyMessageBegin"), &mut operations.message_verify, Operation::message_start)
    };
    verify_message_next(session, part: Bytes) -> () = {
        let (owner, operations) = session.split();
        owner.message(None, &mut operations.message_verify, |verify| verify.message_update(part))
    };
    verify_message_end(session, part: Bytes, signature: Bytes) -> () = {
        let (owner, operations) = session.split();
        owner.message(None, &mut operations.message_verify, |verify| verify.verify_message_end(part, signature))
    };
    message_verify_final(session) -> () = session.operations.message_verify.message_final();
}

/// Defines the functions of the table as methods of the trait. Each calls the method of the module
/// with the same name and arguments.
macro_rules! forward {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        $(
            #[inline]
            fn $method(&self, $($argument: argument!($kind)),*) -> Result<$answer> {
                forward!(@ self $method $($argument)*)
            }
        )*
    };
    (@ $module:ident slots) => { $module.slots().map(List) };
    (@ $module:ident mechanisms $slot:ident) => { $module.mechanisms($slot).map(List) };
    (@ $module:ident open_session $slot:ident $access:ident $asynchronous:ident) => {
        match $asynchronous {
            true => $module.open_async_session($slot, $access),
            false => $module.open_session($slot, $access),
        }
    };
    (@ $module:ident wrap_key $session:ident $mechanism:ident $message:ident $wrapping:ident $key:ident $out:ident) => {
        match $message {
            Some(message) => {
                $module.wrap_key_with_nonce($session, ($mechanism, message), $wrapping, $key, $out)
            }
            None => $module.wrap_key($session, $mechanism, $wrapping, $key, $out),
        }
    };
    (@ $module:ident $method:ident $($argument:ident)*) => { Module::$method($module, $($argument),*) };
}

impl Token for Module {
    fn start(&self, parameters: Option<&str>, threads: Threads) -> Result<()> {
        self.set_threads(threads);
        self.initialize(parameters)
    }

    fn stop(&self) -> Result<()> {
        self.finalize()
    }

    /// PKCS#11 3.2, "Function return values": the codes for session handles follow directly after
    /// the universal codes `CKR_GENERAL_ERROR` and `CKR_HOST_MEMORY`.
    #[cold]
    fn refused(&self, session: SessionHandle, function: Function, error: Error) -> Error {
        let refused = self.with_session::<()>(session, |session| Err(session.refuse(function, error)));
        match refused {
            Err(Error::SessionHandleInvalid) if matches!(error, Error::GeneralError | Error::HostMemory) => {
                error
            }
            Err(error) => error,
            Ok(()) => error,
        }
    }

    fn clear(&self, session: SessionHandle, function: Function) -> Result<()> {
        self.with_session(session, |session| {
            session.operations.clear(function);
            Ok(())
        })
    }

    #[inline]
    fn message_cipher(&self, session: SessionHandle, function: Function) -> Option<AeadScheme> {
        let cipher = self.sessions.with(session, |session| {
            Ok(session
                .operations
                .with_parameter(function)
                .and_then(|(operation, _)| operation.message_cipher()))
        });
        cipher.ok().flatten()
    }

    fn attributes(
        &self,
        session: SessionHandle,
        object: ObjectHandle,
        asked: &mut impl Attributes,
    ) -> Result<()> {
        Module::attributes(self, session, object, asked)
    }

    fn derive(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        base: ObjectHandle,
        template: &Template<'_>,
        more: &mut [Additional<'_>],
    ) -> Result<Derived> {
        Module::derive(self, session, mechanism, base, template, more)
    }

    fn async_signature(
        &self,
        session: SessionHandle,
        function: AsyncFunction,
    ) -> Result<(usize, Result<Secret>)> {
        Module::async_signature(self, session, function)
    }

    functions!(forward);
}
