//! The functions of PKCS#11 for the tests: those of the module, and some in a form that is shorter
//! to call.

use std::ops::Deref;

use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::functions::{Module, Output, Started};
use jeton::id::{ObjectHandle, SessionHandle, mechanism_flag as does};
use jeton::mechanism::Mechanism;
use jeton::mechanism::message::MessageParams;
use jeton::object::template::Template;
use jeton_words::token::{Function, Token};

#[derive(Default)]
pub struct Functions(Module);

impl Functions {
    pub fn new() -> Self {
        Self::default()
    }
}

impl From<Module> for Functions {
    fn from(module: Module) -> Self {
        Self(module)
    }
}

impl Deref for Functions {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.0
    }
}

/// Defines methods that cancel the operations with a flag.
macro_rules! cancel {
    ($($name:ident $flag:ident;)*) => {
        #[allow(dead_code, reason = "the crash tests call some of them alone")]
        impl Functions {
            $(pub fn $name(&self, session: SessionHandle) -> Result<()> {
                self.cancel(session, does::$flag)
            })*
        }
    };
}

cancel! {
    digest_cancel DIGEST;
    sign_cancel SIGN;
    verify_cancel VERIFY;
    verify_signature_cancel VERIFY;
    encrypt_cancel ENCRYPT;
    decrypt_cancel DECRYPT;
    message_sign_cancel MESSAGE_SIGN;
    message_verify_cancel MESSAGE_VERIFY;
}

/// Defines methods for a message-based function of either direction.
macro_rules! either {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $encrypt:ident $decrypt:ident;)*) => {
        #[allow(dead_code, reason = "the crash tests call some of them alone")]
        impl Functions {
            $(pub fn $name(&self, session: SessionHandle, direction: Direction $(, $argument: $type)*) -> Result<$answer> {
                match direction {
                    Direction::Encrypt => self.$encrypt(session $(, $argument)*),
                    Direction::Decrypt => self.$decrypt(session $(, $argument)*),
                }
            })*
        }
    };
}

either! {
    message_crypt_init(mechanism: &Mechanism, key: ObjectHandle) -> () = message_encrypt_init message_decrypt_init;
    crypt_message(params: &mut MessageParams, aad: &[u8], data: &[u8], out: Output<'_>) -> usize =
        encrypt_message decrypt_message;
    crypt_message_begin(params: &mut MessageParams, aad: &[u8]) -> () = encrypt_message_begin decrypt_message_begin;
    crypt_message_next(part: &[u8], out: Output<'_>) -> usize = encrypt_message_next decrypt_message_next;
    crypt_message_end(params: &mut MessageParams, part: &[u8], out: Output<'_>) -> usize =
        encrypt_message_end decrypt_message_end;
    message_crypt_final() -> () = message_encrypt_final message_decrypt_final;
}

#[allow(dead_code, reason = "the crash tests call some of them alone")]
impl Functions {
    pub fn encrypt_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.0.encrypt_init(session, mechanism.into(), key)
    }

    pub fn decrypt_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        self.0.decrypt_init(session, mechanism.into(), key)
    }

    /// Returns the length of the signature.
    pub fn sign(&self, session: SessionHandle, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.0.sign(session, data, out).map(|signed| signed.length())
    }

    /// Returns the length of the signature.
    pub fn sign_final(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.0.sign_final(session, out).map(|signed| signed.length())
    }

    /// Ends the active message, as the refused argument of a call does.
    pub fn crypt_message_cancel(&self, session: SessionHandle, direction: Direction) -> Result<()> {
        let function = match direction {
            Direction::Encrypt => Function::C_EncryptMessageNext,
            Direction::Decrypt => Function::C_DecryptMessageNext,
        };
        match self.refused(session, function, Error::ArgumentsBad) {
            Error::ArgumentsBad => Ok(()),
            error => Err(error),
        }
    }

    pub fn message_crypt_cancel(&self, session: SessionHandle, direction: Direction) -> Result<()> {
        match direction {
            Direction::Encrypt => self.cancel(session, does::MESSAGE_ENCRYPT),
            Direction::Decrypt => self.cancel(session, does::MESSAGE_DECRYPT),
        }
    }

    /// Fails with `Pending` if the generation continues after the call.
    pub fn generate_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        completed(self.0.generate_key(session, mechanism, template)?)
    }

    /// Fails with `Pending` if the generation continues after the call.
    pub fn generate_key_pair(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        public: &Template<'_>,
        private: &Template<'_>,
    ) -> Result<(ObjectHandle, ObjectHandle)> {
        completed(self.0.generate_key_pair(session, mechanism, public, private)?)
    }
}

fn completed<T>(started: Started<T>) -> Result<T> {
    match started {
        Started::Done(done) => Ok(done),
        Started::Pending => Err(Error::Pending),
    }
}
