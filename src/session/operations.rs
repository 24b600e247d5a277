//! The list of a session's operations. A new operation needs one entry here, an engine and an
//! `Init` function.

use jeton_words::token::Function;

use super::Session;
use super::crypt::Crypting;
use super::digest::Digesting;
use super::message::Messages;
use super::operation::{Lifecycle, Operation};
use super::progress::Saved;
use super::recover::Recovering;
use super::sign::{Signing, Verifying};
use super::verify_signature::VerifyingSignature;
use crate::error::Result;
use crate::id::{ObjectHandle, mechanism_flag as flag};
use crate::mechanism::Mechanism;

/// Which argument of `C_SetOperationState` names the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Encryption,
    Authentication,
}

/// How one operation of a session is saved and restored.
pub(super) struct Savable {
    /// `None` if the operation has no key.
    pub(super) role: Option<Role>,
    pub(super) save: fn(&Operations) -> Result<Option<Saved>>,
    /// Starts the operation again by its `Init` function, which checks the permissions of the key.
    /// The last argument is the signature of `C_VerifySignatureInit`.
    pub(super) init: fn(&mut Session, &Mechanism, ObjectHandle, &[u8]) -> Result<()>,
    pub(super) resume: fn(&mut Operations, &Saved) -> Result<()>,
}

/// Each entry is the name of an operation, its engine, its flag in `C_SessionCancel` and its `Init`
/// function. Then comes what bad arguments end, the operation or its message, and in which
/// functions. An operation that `C_GetOperationState` can save also has the role of its key, and
/// how it starts again. This function gets the mechanism, the key and the signature of
/// `C_VerifySignatureInit`.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident: $engine:ty, $flag:ident, $function:ident, $end:ident in [$($part:ident)*]
            $(, saved with $role:ident by $init:expr)?;
    )*) => {
        /// The operations of a session.
        #[derive(Default)]
        pub(crate) struct Operations {
            $($(#[$doc])* pub(crate) $name: Operation<$engine>,)*
        }

        impl Operations {
            /// Returns each operation with its flag in `C_SessionCancel`.
            pub(super) fn each(&mut self) -> impl Iterator<Item = (u64, &mut dyn Lifecycle)> {
                let each: [(u64, &mut dyn Lifecycle); _] = [$((flag::$flag, &mut self.$name)),*];
                each.into_iter()
            }

            /// Ends the operation that an `Init` function starts, and drops its engine.
            pub(crate) fn clear(&mut self, function: Function) {
                match function {
                    $(Function::$function => self.$name.clear(),)*
                    _ => {}
                }
            }

            /// Ends the operation that a function continues, or the message, because the arguments
            /// of the function were refused.
            ///
            /// PKCS#11 3.2, C_Sign and similar functions: the call "always terminates the active …
            /// operation unless it returns CKR_BUFFER_TOO_SMALL or is a successful call"; the
            /// Update functions have the same rule for errors. A function with two operations ends
            /// the encryption or decryption. The digest, signature or verification continues,
            /// because it received no data.
            pub(crate) fn end_refused(&mut self, function: Function) {
                match function {
                    $($(Function::$part => self.$name.$end(),)*)*
                    _ => {}
                }
            }

            /// Returns a bit for each operation that is active, in the order of this list.
            pub(super) fn active(&self) -> u16 {
                [$(self.$name.is_active()),*].into_iter().rev().fold(0, |bits, active| bits << 1 | u16::from(active))
            }
        }

        /// The operations that can be saved.
        pub(super) const SAVABLE: &[Savable] = &[$($(Savable {
            role: $role,
            init: $init,
            save: |operations| operations.$name.save(),
            resume: |operations, saved| operations.$name.resume(saved),
        },)?)*];
    };
}

const ENCRYPTION: Option<Role> = Some(Role::Encryption);
const AUTHENTICATION: Option<Role> = Some(Role::Authentication);
const NO_KEY: Option<Role> = None;

operations! {
    /// The digest operation.
    digest: Digesting, DIGEST, C_DigestInit,
        cancel in [C_Digest C_DigestUpdate C_DigestFinal],
        saved with NO_KEY by |session, mechanism, _, _| session.digest_init(mechanism);
    /// The signature operation.
    sign: Signing, SIGN, C_SignInit,
        cancel in [C_Sign C_SignUpdate C_SignFinal],
        saved with AUTHENTICATION by |session, mechanism, key, _| session.sign_init(mechanism, key);
    /// The verification operation.
    verify: Verifying, VERIFY, C_VerifyInit,
        cancel in [C_Verify C_VerifyUpdate C_VerifyFinal],
        saved with AUTHENTICATION by |session, mechanism, key, _| session.verify_init(mechanism, key);
    /// The verification operation of `C_VerifySignatureInit`, which gets the signature before the
    /// data.
    verify_signature: VerifyingSignature, VERIFY, C_VerifySignatureInit,
        cancel in [C_VerifySignature C_VerifySignatureUpdate],
        saved with AUTHENTICATION by Session::verify_signature_init;
    /// The encryption operation.
    encrypt: Crypting, ENCRYPT, C_EncryptInit,
        cancel in [C_Encrypt C_EncryptUpdate C_EncryptFinal C_DigestEncryptUpdate C_SignEncryptUpdate],
        saved with ENCRYPTION by |session, mechanism, key, _| session.encrypt_init(mechanism, key);
    /// The decryption operation.
    decrypt: Crypting, DECRYPT, C_DecryptInit,
        cancel in [C_Decrypt C_DecryptUpdate C_DecryptFinal C_DecryptDigestUpdate C_DecryptVerifyUpdate],
        saved with ENCRYPTION by |session, mechanism, key, _| session.decrypt_init(mechanism, key);
    /// The signature operation with data recovery.
    sign_recover: Signing, SIGN_RECOVER, C_SignRecoverInit,
        cancel in [C_SignRecover];
    /// The verification operation with data recovery.
    verify_recover: Recovering, VERIFY_RECOVER, C_VerifyRecoverInit,
        cancel in [C_VerifyRecover];
    /// The message-based encryption operation.
    message_encrypt: Messages, MESSAGE_ENCRYPT, C_MessageEncryptInit,
        message_cancel in [C_EncryptMessageNext C_EncryptMessageEnd];
    /// The message-based decryption operation.
    message_decrypt: Messages, MESSAGE_DECRYPT, C_MessageDecryptInit,
        message_cancel in [C_DecryptMessageNext C_DecryptMessageEnd];
    /// The message-based signature operation.
    message_sign: Signing, MESSAGE_SIGN, C_MessageSignInit,
        message_cancel in [C_SignMessageNext C_SignMessageEnd];
    /// The message-based verification operation.
    message_verify: Verifying, MESSAGE_VERIFY, C_MessageVerifyInit,
        message_cancel in [C_VerifyMessageNext C_VerifyMessageEnd];
}
