//! The functions of PKCS#11 as methods of a trait. A module implements it with a token, and a
//! client with a connection.
//!
//! One table has the functions. From it come the trait, the list of their names, and elsewhere the
//! requests and answers of a protocol.

use crate::asynchronous::{AsyncFunction, Completed, Started};
use crate::attribute::AttributeView;
use crate::bounded::{self, List};
use crate::cipher::AeadScheme;
use crate::derive::{Additional, Derived};
use crate::error::{Error, Result};
use crate::general::Threads;
use crate::id::{AttributeType, MechanismType, ObjectHandle, SessionHandle, SlotId};
use crate::mechanism::Mechanism;
use crate::operation::Signed;
use crate::session::SessionInfo;
use crate::slot::{MechanismInfo, SlotInfo, TokenInfo};
use crate::template::Template;

/// Calls a macro with the table of functions. A row has the name of the function, the name of the
/// method, its arguments with their kinds (see `argument!`), and its answer.
///
/// `C_GetAttributeValue` and `C_DeriveKey` write into what they are given, so they are not here but
/// in the trait. `C_Initialize`, `C_Finalize`, `C_GetInfo`, the function lists and the two functions
/// that always have the same result need no row.
///
/// In a message a function is the number of its row: a new row is the last one.
#[macro_export]
macro_rules! functions {
    ($callback:path $(, $extra:tt)*) => {
        $callback! {
            $($extra)*
            C_GetSlotList slots() -> List<SlotId>;
            C_GetSlotInfo slot(slot: Slot) -> SlotInfo;
            C_GetTokenInfo token(slot: Slot) -> TokenInfo;
            C_WaitForSlotEvent wait_for_slot_event(wait: Wait) -> SlotId;
            C_GetMechanismList mechanisms(slot: Slot) -> List<MechanismType>;
            C_GetMechanismInfo mechanism(slot: Slot, mechanism: Type) -> MechanismInfo;
            C_InitToken init_token(slot: Slot, pin: Pin, label: Label) -> ();
            C_InitPIN init_pin(session: Session, pin: Pin) -> ();
            C_SetPIN set_pin(session: Session, old: Pin, new: Pin) -> ();

            C_OpenSession open_session(slot: Slot, access: Access, asynchronous: Flag) -> SessionHandle;
            C_CloseSession close_session(session: Session) -> ();
            C_CloseAllSessions close_all_sessions(slot: Slot) -> ();
            C_GetSessionInfo session(session: Session) -> SessionInfo;
            C_SessionCancel cancel(session: Session, flags: Number) -> ();
            C_GetOperationState operation_state(session: Session, out: Output) -> usize;
            C_SetOperationState
                set_operation_state(session: Session, state: Bytes, encryption: Object, authentication: Object) -> ();
            C_Login login(session: Session, user: User, pin: Pin) -> ();
            C_LoginUser login_user(session: Session, user: User, pin: Pin, name: Bytes) -> ();
            C_Logout logout(session: Session) -> ();
            C_GetSessionValidationFlags validation_flags(session: Session) -> u64;

            C_CreateObject create_object(session: Session, template: Template) -> ObjectHandle;
            C_CopyObject copy_object(session: Session, object: Object, template: Template) -> ObjectHandle;
            C_DestroyObject destroy_object(session: Session, object: Object) -> ();
            C_GetObjectSize object_size(session: Session, object: Object) -> u64;
            C_SetAttributeValue set_attributes(session: Session, object: Object, template: Template) -> ();
            C_FindObjectsInit find_init(session: Session, template: Template) -> ();
            C_FindObjects find(session: Session, out: Handles) -> usize;
            C_FindObjectsFinal find_final(session: Session) -> ();

            C_EncryptInit encrypt_init(session: Session, mechanism: CryptMechanism, key: Object) -> ();
            C_Encrypt encrypt(session: Session, data: Bytes, out: Output) -> usize;
            C_EncryptUpdate encrypt_update(session: Session, part: Bytes, out: Output) -> usize;
            C_EncryptFinal encrypt_final(session: Session, out: Output) -> usize;
            C_DecryptInit decrypt_init(session: Session, mechanism: CryptMechanism, key: Object) -> ();
            C_Decrypt decrypt(session: Session, data: Bytes, out: Output) -> usize;
            C_DecryptUpdate decrypt_update(session: Session, part: Bytes, out: Output) -> usize;
            C_DecryptFinal decrypt_final(session: Session, out: Output) -> usize;

            C_MessageEncryptInit message_encrypt_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_EncryptMessage
                encrypt_message(session: Session, params: Message, aad: Bytes, data: Bytes, out: Output) -> usize;
            C_EncryptMessageBegin encrypt_message_begin(session: Session, params: Message, aad: Bytes) -> ();
            C_EncryptMessageNext encrypt_message_next(session: Session, part: Bytes, out: Output) -> usize;
            // With CKF_END_OF_MESSAGE.
            C_EncryptMessageEnd
                encrypt_message_end(session: Session, params: Message, part: Bytes, out: Output) -> usize;
            C_MessageEncryptFinal message_encrypt_final(session: Session) -> ();
            C_MessageDecryptInit message_decrypt_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_DecryptMessage
                decrypt_message(session: Session, params: Message, aad: Bytes, data: Bytes, out: Output) -> usize;
            C_DecryptMessageBegin decrypt_message_begin(session: Session, params: Message, aad: Bytes) -> ();
            C_DecryptMessageNext decrypt_message_next(session: Session, part: Bytes, out: Output) -> usize;
            C_DecryptMessageEnd
                decrypt_message_end(session: Session, params: Message, part: Bytes, out: Output) -> usize;
            C_MessageDecryptFinal message_decrypt_final(session: Session) -> ();

            C_DigestInit digest_init(session: Session, mechanism: Mechanism) -> ();
            C_Digest digest(session: Session, data: Bytes, out: Output) -> usize;
            C_DigestUpdate digest_update(session: Session, part: Bytes) -> ();
            C_DigestKey digest_key(session: Session, key: Object) -> ();
            C_DigestFinal digest_final(session: Session, out: Output) -> usize;

            C_SignInit sign_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_Sign sign(session: Session, data: Bytes, out: Output) -> Signed;
            C_SignUpdate sign_update(session: Session, part: Bytes) -> ();
            C_SignFinal sign_final(session: Session, out: Output) -> Signed;
            C_SignRecoverInit sign_recover_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_SignRecover sign_recover(session: Session, data: Bytes, out: Output) -> usize;
            C_MessageSignInit message_sign_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_SignMessage sign_message(session: Session, data: Bytes, out: Output) -> usize;
            C_SignMessageBegin sign_message_begin(session: Session) -> ();
            C_SignMessageNext sign_message_next(session: Session, part: Bytes) -> ();
            // With a place for the signature.
            C_SignMessageEnd sign_message_end(session: Session, part: Bytes, out: Output) -> usize;
            C_MessageSignFinal message_sign_final(session: Session) -> ();

            C_VerifyInit verify_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_Verify verify(session: Session, data: Bytes, signature: Bytes) -> ();
            C_VerifyUpdate verify_update(session: Session, part: Bytes) -> ();
            C_VerifyFinal verify_final(session: Session, signature: Bytes) -> ();
            C_VerifyRecoverInit verify_recover_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_VerifyRecover verify_recover(session: Session, signature: Bytes, out: Output) -> usize;
            C_VerifySignatureInit
                verify_signature_init(session: Session, mechanism: Mechanism, key: Object, signature: Bytes) -> ();
            C_VerifySignature verify_signature(session: Session, data: Bytes) -> ();
            C_VerifySignatureUpdate verify_signature_update(session: Session, part: Bytes) -> ();
            C_VerifySignatureFinal verify_signature_final(session: Session) -> ();
            C_MessageVerifyInit message_verify_init(session: Session, mechanism: Mechanism, key: Object) -> ();
            C_VerifyMessage verify_message(session: Session, data: Bytes, signature: Bytes) -> ();
            C_VerifyMessageBegin verify_message_begin(session: Session) -> ();
            C_VerifyMessageNext verify_message_next(session: Session, part: Bytes) -> ();
            // With a signature.
            C_VerifyMessageEnd verify_message_end(session: Session, part: Bytes, signature: Bytes) -> ();
            C_MessageVerifyFinal message_verify_final(session: Session) -> ();

            C_DigestEncryptUpdate digest_encrypt_update(session: Session, part: Bytes, out: Output) -> usize;
            C_DecryptDigestUpdate decrypt_digest_update(session: Session, part: Bytes, out: Output) -> usize;
            C_SignEncryptUpdate sign_encrypt_update(session: Session, part: Bytes, out: Output) -> usize;
            C_DecryptVerifyUpdate decrypt_verify_update(session: Session, part: Bytes, out: Output) -> usize;

            C_GenerateKey
                generate_key(session: Session, mechanism: Mechanism, template: Template) -> Started<ObjectHandle>;
            C_GenerateKeyPair
                generate_key_pair(session: Session, mechanism: Mechanism, public: Template, private: Template)
                    -> Started<(ObjectHandle, ObjectHandle)>;
            C_WrapKey
                wrap_key(
                    session: Session, mechanism: Mechanism, message: MaybeMessage, wrapping: Object, key: Object,
                    out: Output
                ) -> usize;
            C_UnwrapKey
                unwrap_key(
                    session: Session, mechanism: Mechanism, unwrapping: Object, wrapped: Bytes, template: Template
                ) -> ObjectHandle;
            C_WrapKeyAuthenticated
                wrap_key_authenticated(
                    session: Session, mechanism: Mechanism, params: Message, aad: Bytes, wrapping: Object,
                    key: Object, out: Output
                ) -> usize;
            C_UnwrapKeyAuthenticated
                unwrap_key_authenticated(
                    session: Session, mechanism: Mechanism, params: Message, aad: Bytes, unwrapping: Object,
                    wrapped: Bytes, template: Template
                ) -> ObjectHandle;
            C_EncapsulateKey
                encapsulate_key(
                    session: Session, mechanism: Mechanism, public: Object, template: Template, out: Output
                ) -> (usize, Option<ObjectHandle>);
            C_DecapsulateKey
                decapsulate_key(
                    session: Session, mechanism: Mechanism, private: Object, template: Template, ciphertext: Bytes
                ) -> ObjectHandle;
            C_SeedRandom seed_random(session: Session, seed: Bytes) -> ();
            C_GenerateRandom random(session: Session, out: Fill) -> ();

            C_AsyncComplete async_complete(session: Session, function: AsyncFunction) -> Completed;
            C_AsyncGetID async_id(session: Session, function: AsyncFunction) -> u64;
            C_AsyncJoin async_join(session: Session, function: AsyncFunction, id: Number) -> ();
        }
    };
}

/// The type of an argument in the trait, by its kind in the table of [`functions`].
#[macro_export]
macro_rules! argument {
    (Slot) => { $crate::id::SlotId };
    (Session) => { $crate::id::SessionHandle };
    (Object) => { $crate::id::ObjectHandle };
    (Type) => { $crate::id::MechanismType };
    (Number) => { u64 };
    (Flag) => { bool };
    (Wait) => { $crate::slot::Wait };
    (Access) => { $crate::session::Access };
    (User) => { $crate::session::User };
    (AsyncFunction) => { $crate::asynchronous::AsyncFunction };
    (Label) => { &[u8; 32] };
    (Pin) => { &[u8] };
    (Bytes) => { &[u8] };
    (Fill) => { &mut [u8] };
    (Handles) => { &mut [$crate::id::ObjectHandle] };
    (Output) => { $crate::operation::Output<'_> };
    (Template) => { &$crate::template::Template<'_> };
    (Mechanism) => { &$crate::mechanism::Mechanism };
    (CryptMechanism) => { $crate::operation::CryptMechanism<'_> };
    (Message) => { &mut $crate::message::MessageParams };
    (MaybeMessage) => { Option<&mut $crate::message::MessageParams> };
}

macro_rules! make {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        /// A function of PKCS#11. A function that does two things has two names here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, non_camel_case_types, reason = "the names are the specification's")]
        pub enum Function {
            C_GetAttributeValue,
            C_DeriveKey,
            $($function,)*
        }

        impl Function {
            /// All functions.
            pub const ALL: &'static [Self] =
                &[Self::C_GetAttributeValue, Self::C_DeriveKey, $(Self::$function,)*];

            /// Returns the name of the function in PKCS#11.
            #[allow(unreachable_patterns, reason = "the table has another name for the four functions")]
            pub const fn name(self) -> &'static str {
                match self {
                    Self::C_GetAttributeValue => "C_GetAttributeValue",
                    Self::C_DeriveKey => "C_DeriveKey",
                    Self::C_EncryptMessageEnd => "C_EncryptMessageNext",
                    Self::C_DecryptMessageEnd => "C_DecryptMessageNext",
                    Self::C_SignMessageEnd => "C_SignMessageNext",
                    Self::C_VerifyMessageEnd => "C_VerifyMessageNext",
                    $(Self::$function => stringify!($function),)*
                }
            }
        }

        /// A token as an application calls it: a method for each function, with arguments that
        /// were read and checked.
        #[allow(clippy::too_many_arguments, reason = "the specification's")]
        pub trait Token: Sync + 'static {
            /// The number of objects in a batch of a search, if it is more than the usual one. A
            /// batch costs a connection a message.
            const BATCH: usize = 0;

            /// `C_Initialize`, with the parameters in `pReserved`.
            fn start(&self, parameters: Option<&str>, threads: Threads) -> Result<()>;

            /// `C_Finalize`
            fn stop(&self) -> Result<()>;

            /// Refuses a call whose arguments could not be read. Returns the error for the caller:
            /// `error`, or one that takes precedence, such as that of an invalid session. Ends what
            /// the function ends if it fails.
            fn refused(&self, session: SessionHandle, function: Function, error: Error) -> Error;

            /// Ends the operation that an `Init` function starts. `NULL` for its mechanism asks for
            /// this.
            fn clear(&self, session: SessionHandle, function: Function) -> Result<()>;

            /// Returns the cipher of the operation that a message-based function continues; `None` if
            /// there is no such operation. The cipher says which struct the parameter of a message is.
            /// Its length does not: a `CK_GCM_WRAP_PARAMS` is as long as a `CK_CCM_MESSAGE_PARAMS`.
            fn message_cipher(&self, session: SessionHandle, function: Function) -> Option<AeadScheme>;

            /// `C_GetAttributeValue`. Fails only if there are no values to tell, for example if
            /// the handle is invalid.
            fn attributes(
                &self,
                session: SessionHandle,
                object: ObjectHandle,
                asked: &mut impl Attributes,
            ) -> Result<()>;

            /// A further batch of a call of `C_FindObjects` that began at the time `start`.
            fn find_more(
                &self,
                session: SessionHandle,
                objects: &mut [ObjectHandle],
                start: std::time::Instant,
            ) -> Result<usize> {
                let _ = start;
                self.find(session, objects)
            }

            /// `C_DeriveKey`. Sets the handles of the further keys.
            fn derive(
                &self,
                session: SessionHandle,
                mechanism: &Mechanism,
                base: ObjectHandle,
                template: &Template<'_>,
                more: &mut [Additional<'_>],
            ) -> Result<Derived>;

            /// `C_AsyncComplete` for a function with an output buffer. Returns the address of the
            /// buffer that the function got, and the signature.
            fn async_signature(
                &self,
                session: SessionHandle,
                function: AsyncFunction,
            ) -> Result<(usize, Result<jeton_secret::Secret>)>;

            $(
                #[doc = concat!("`", stringify!($function), "`")]
                fn $method(&self, $($argument: argument!($kind)),*) -> Result<$answer>;
            )*
        }
    };
}

functions!(make);

/// The attributes that `C_GetAttributeValue` asks for, and the place for their values.
pub trait Attributes {
    /// Returns the number of attributes.
    fn count(&self) -> usize;

    /// Returns the type of an attribute, and the room for its value.
    fn asked(&self, index: usize) -> (AttributeType, Room);

    /// Takes the value of an attribute, or the reason why there is none.
    fn tell(&mut self, index: usize, value: Result<AttributeView<'_>>);

    /// Returns the result of the call after all values: the error that [`worse`] chooses.
    fn outcome(&self) -> Result<()>;
}

/// Returns the more useful of two results; PKCS#11 allows either. Every other error is more useful
/// than a short buffer, because a larger buffer would not avoid it.
pub fn worse(one: Result<()>, other: Result<()>) -> Result<()> {
    let rank = |outcome: &Result<()>| match outcome {
        Ok(()) => 0,
        Err(Error::BufferTooSmall { .. }) => 1,
        Err(Error::AttributeTypeInvalid) => 2,
        Err(Error::AttributeSensitive) => 3,
        Err(_) => 4,
    };
    if rank(&other) > rank(&one) { other } else { one }
}

/// The room for a value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Room {
    /// The caller asks for the length.
    Length,
    /// The caller has a buffer of this number of bytes.
    Bytes(u64),
    /// The caller has an array of attributes of this number of bytes. The first ones, at most
    /// [`MAX_ATTRIBUTES`](bounded::MAX_ATTRIBUTES), have this room for their values.
    Template(u64, #[serde(deserialize_with = "bounded::nested")] Vec<Room>),
}
