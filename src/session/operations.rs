//! The list of a session's operations. A new operation needs one entry here, an engine and an
//! `Init` function.

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

/// Each entry is the name of an operation, its engine and its flag in `C_SessionCancel`. An
/// operation that `C_GetOperationState` can save also has the role of its key and its `Init`
/// function. This function gets the mechanism, the key and the signature of
/// `C_VerifySignatureInit`.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident: $engine:ty, $flag:ident $(, saved with $role:ident by $init:expr)?;
    )*) => {
        /// The operations of a session.
        #[derive(Default)]
        pub struct Operations {
            $($(#[$doc])* pub $name: Operation<$engine>,)*
        }

        impl Operations {
            /// Returns each operation with its flag in `C_SessionCancel`.
            pub(super) fn each(&mut self) -> impl Iterator<Item = (u64, &mut dyn Lifecycle)> {
                let each: [(u64, &mut dyn Lifecycle); _] = [$((flag::$flag, &mut self.$name)),*];
                each.into_iter()
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
    digest: Digesting, DIGEST,
        saved with NO_KEY by |session, mechanism, _, _| session.digest_init(mechanism);
    /// The signature operation.
    sign: Signing, SIGN,
        saved with AUTHENTICATION by |session, mechanism, key, _| session.sign_init(mechanism, key);
    /// The verification operation.
    verify: Verifying, VERIFY,
        saved with AUTHENTICATION by |session, mechanism, key, _| session.verify_init(mechanism, key);
    /// The verification operation of `C_VerifySignatureInit`, which gets the signature before the
    /// data.
    verify_signature: VerifyingSignature, VERIFY,
        saved with AUTHENTICATION by Session::verify_signature_init;
    /// The encryption operation.
    encrypt: Crypting, ENCRYPT,
        saved with ENCRYPTION by |session, mechanism, key, _| session.encrypt_init(mechanism, key);
    /// The decryption operation.
    decrypt: Crypting, DECRYPT,
        saved with ENCRYPTION by |session, mechanism, key, _| session.decrypt_init(mechanism, key);
    /// The signature operation with data recovery.
    sign_recover: Signing, SIGN_RECOVER;
    /// The verification operation with data recovery.
    verify_recover: Recovering, VERIFY_RECOVER;
    /// The message-based encryption operation.
    message_encrypt: Messages, MESSAGE_ENCRYPT;
    /// The message-based decryption operation.
    message_decrypt: Messages, MESSAGE_DECRYPT;
    /// The message-based signature operation.
    message_sign: Signing, MESSAGE_SIGN;
    /// The message-based verification operation.
    message_verify: Verifying, MESSAGE_VERIFY;
}
