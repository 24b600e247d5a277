//! The functions of PKCS#11 for the tests. Each one calls the core as the C interface does.

use std::ops::Deref;

use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::functions::{Module, Output, Started};
use jeton::id::{ObjectHandle, SessionHandle};
use jeton::mechanism::Mechanism;
use jeton::mechanism::message::MessageParams;
use jeton::object::template::Template;
use jeton::session::Session;

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

/// Each entry is a function: its arguments after the session, its result, and the closure that it
/// runs.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $work:expr;)*) => {
        #[allow(dead_code, reason = "the crash tests call some of them alone")]
        impl Functions {
            $(pub fn $name(&self, session: SessionHandle $(, $argument: $type)*) -> Result<$result> {
                self.with_session(session, $work)
            })*
        }
    };
}

/// Each entry is an `Init` function, its name in PKCS#11, its operation, and the function that
/// cancels the operation.
macro_rules! inits {
    ($($name:ident, $function:literal, $operation:ident $(, $cancel:ident)?;)*) => {
        impl Functions {
            $(
                pub fn $name(&self, session: SessionHandle, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
                    self.with_session(session, |session| session.start($function, mechanism, key, Session::$name))
                }

                $(
                    pub fn $cancel(&self, session: SessionHandle) -> Result<()> {
                        self.with_session(session, |session| {
                            session.operations.$operation.cancel();
                            Ok(())
                        })
                    }
                )?
            )*
        }
    };
}

inits! {
    sign_init, "C_SignInit", sign, sign_cancel;
    verify_init, "C_VerifyInit", verify, verify_cancel;
    encrypt_init, "C_EncryptInit", encrypt, encrypt_cancel;
    decrypt_init, "C_DecryptInit", decrypt, decrypt_cancel;
    sign_recover_init, "C_SignRecoverInit", sign_recover;
    message_sign_init, "C_MessageSignInit", message_sign, message_sign_cancel;
    message_verify_init, "C_MessageVerifyInit", message_verify, message_verify_cancel;
}

functions! {
    digest_init(mechanism: &Mechanism) -> () = |session| session.digest_init(mechanism);
    digest(data: &[u8], out: Output<'_>) -> usize = |session| session.operations.digest.digest(data, out);
    digest_update(data: &[u8]) -> () = |session| session.operations.digest.update(data);
    digest_final(out: Output<'_>) -> usize = |session| session.operations.digest.digest_final(out);
    digest_cancel() -> () = |session| { session.operations.digest.cancel(); Ok(()) };
    sign(data: &[u8], out: Output<'_>) -> usize = |session| session.operations.sign.sign(data, out);
    sign_update(data: &[u8]) -> () = |session| session.operations.sign.update(data);
    sign_final(out: Output<'_>) -> usize = |session| session.operations.sign.sign_final(out);
    verify(data: &[u8], signature: &[u8]) -> () = |session| session.operations.verify.verify(data, signature);
    verify_update(data: &[u8]) -> () = |session| session.operations.verify.update(data);
    verify_final(signature: &[u8]) -> () = |session| session.operations.verify.verify_final(signature);
    encrypt(data: &[u8], out: Output<'_>) -> usize = |session| session.operations.encrypt.crypt(data, out);
    encrypt_update(data: &[u8], out: Output<'_>) -> usize =
        |session| session.crypt_update(Direction::Encrypt, data, out);
    encrypt_final(out: Output<'_>) -> usize = |session| session.operations.encrypt.crypt_final(out);
    decrypt(data: &[u8], out: Output<'_>) -> usize = |session| session.operations.decrypt.crypt(data, out);
    decrypt_update(data: &[u8], out: Output<'_>) -> usize =
        |session| session.crypt_update(Direction::Decrypt, data, out);
    sign_encrypt_update(data: &[u8], out: Output<'_>) -> usize = |session| session.sign_encrypt_update(data, out);
    sign_recover(data: &[u8], out: Output<'_>) -> usize = |session| session.operations.sign_recover.sign(data, out);
    verify_signature(data: &[u8]) -> () = |session| session.operations.verify_signature.verify_signature(data);
    verify_signature_update(data: &[u8]) -> () = |session| session.operations.verify_signature.update(data);
    verify_signature_final() -> () = |session| session.operations.verify_signature.verify_signature_final();
    verify_signature_cancel() -> () = |session| { session.operations.verify_signature.cancel(); Ok(()) };
    message_sign_final() -> () = |session| session.operations.message_sign.message_final();
    message_verify_final() -> () = |session| session.operations.message_verify.message_final();
    crypt_message_cancel(direction: Direction) -> () =
        |session| { session.operations.messages(direction).message_cancel(); Ok(()) };
    message_crypt_final(direction: Direction) -> () =
        |session| session.operations.messages(direction).message_final();
    message_crypt_cancel(direction: Direction) -> () =
        |session| { session.operations.messages(direction).cancel(); Ok(()) };
}

/// Each entry is a message-based function: its name for the audit log, its operation, and the
/// closure that it runs.
macro_rules! messages {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty,
        $function:expr, |$operations:ident| $operation:expr, $work:expr;)*) => {
        #[allow(dead_code, reason = "the crash tests call some of them alone")]
        impl Functions {
            $(pub fn $name(&self, session: SessionHandle $(, $argument: $type)*) -> Result<$result> {
                self.with_session(session, |session| {
                    let (owner, $operations) = session.split();
                    owner.message($function, $operation, $work)
                })
            })*
        }
    };
}

messages! {
    sign_message(data: &[u8], out: Output<'_>) -> usize, logged(&out, "C_SignMessage"), |it| &mut it.message_sign,
        |operation| operation.sign_message(data, out);
    sign_message_begin() -> (), Some("C_SignMessageBegin"), |it| &mut it.message_sign,
        |operation| operation.message_start();
    sign_message_part(part: &[u8]) -> (), None, |it| &mut it.message_sign,
        |operation| operation.message_update(part);
    sign_message_end(part: &[u8], out: Output<'_>) -> usize, None, |it| &mut it.message_sign,
        |operation| operation.sign_message_end(part, out);
    verify_message(data: &[u8], signature: &[u8]) -> (), Some("C_VerifyMessage"), |it| &mut it.message_verify,
        |operation| operation.verify_message(data, signature);
    verify_message_begin() -> (), Some("C_VerifyMessageBegin"), |it| &mut it.message_verify,
        |operation| operation.message_start();
    verify_message_part(part: &[u8]) -> (), None, |it| &mut it.message_verify,
        |operation| operation.message_update(part);
    crypt_message(direction: Direction, params: &mut MessageParams, aad: &[u8], data: &[u8], out: Output<'_>) -> usize,
        logged(&out, either(direction, "C_EncryptMessage", "C_DecryptMessage")),
        |it| it.messages(direction), |operation| operation.crypt_message(params, aad, data, out);
    crypt_message_begin(direction: Direction, params: &mut MessageParams, aad: &[u8]) -> (),
        Some(either(direction, "C_EncryptMessageBegin", "C_DecryptMessageBegin")),
        |it| it.messages(direction), |operation| operation.crypt_message_begin(params, aad);
    crypt_message_part(direction: Direction, part: &[u8], out: Output<'_>) -> usize, None,
        |it| it.messages(direction), |operation| operation.crypt_message_part(part, out);
    crypt_message_end(direction: Direction, params: &mut MessageParams, part: &[u8], out: Output<'_>) -> usize, None,
        |it| it.messages(direction), |operation| operation.crypt_message_end(params, part, out);
}

/// Returns the name for the audit log, unless the caller asks only for the length.
fn logged(out: &Output<'_>, function: &'static str) -> Option<&'static str> {
    matches!(out, Output::Buffer(_)).then_some(function)
}

fn either(direction: Direction, encrypts: &'static str, decrypts: &'static str) -> &'static str {
    match direction {
        Direction::Encrypt => encrypts,
        Direction::Decrypt => decrypts,
    }
}

impl Functions {
    pub fn message_crypt_init(
        &self,
        session: SessionHandle,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        let function = either(direction, "C_MessageEncryptInit", "C_MessageDecryptInit");
        self.with_session(session, |session| {
            session.start(function, mechanism, key, |session, mechanism, key| {
                session.message_crypt_init(direction, mechanism, key)
            })
        })
    }

    pub fn verify_signature_init(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        key: ObjectHandle,
        signature: &[u8],
    ) -> Result<()> {
        self.with_session(session, |session| {
            session.start("C_VerifySignatureInit", mechanism, key, |session, mechanism, key| {
                session.verify_signature_init(mechanism, key, signature)
            })
        })
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
