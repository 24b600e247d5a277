//! The errors of PKCS#11. The C interface maps each to its `CKR_*` value. Details go to the log
//! where the error occurs.

use serde::{Deserialize, Serialize};

use jeton_secret::OutOfMemory;

/// The result of most fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Fails with this error if the condition is false.
#[inline(always)]
pub const fn require(condition: bool, error: Error) -> Result<()> {
    if condition { Ok(()) } else { Err(error) }
}

/// The reason why a call failed. Each variant is a return value of PKCS#11 3.2 ("Function return
/// values").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Error {
    /// The caller's arguments contradict each other or are outside what the function accepts.
    ArgumentsBad,
    /// The caller cannot set the attribute, or cannot set it to this value.
    AttributeReadOnly,
    /// The attribute's value is secret.
    AttributeSensitive,
    /// The object has no such attribute.
    AttributeTypeInvalid,
    /// The attribute's value is malformed or not allowed here.
    AttributeValueInvalid,
    /// The message fails authentication: its tag, ciphertext or associated data is not the
    /// original.
    AeadDecryptFailed,
    /// The object's own attributes forbid copying, destroying or changing it.
    ActionProhibited,
    /// The output does not fit into the caller's buffer. The operation stays active.
    BufferTooSmall {
        /// A length in bytes that is always sufficient.
        needed: usize,
    },
    /// The application called `C_Initialize` twice.
    AlreadyInitialized,
    /// Jeton is not initialised: before `C_Initialize`, after `C_Finalize` or after a fork.
    NotInitialized,
    /// The token does not support the curve.
    CurveNotSupported,
    /// The input is malformed for the mechanism.
    DataInvalid,
    /// The input is too short or too long for the mechanism.
    DataLenRange,
    /// The store or a library failed; the log has the reason.
    DeviceError,
    /// The store has no space left.
    DeviceMemory,
    /// Another process initialised the token again, or the token's file was removed or replaced.
    DeviceRemoved,
    /// The domain parameters are invalid.
    DomainParamsInvalid,
    /// The decryption of the ciphertext fails.
    EncryptedDataInvalid,
    /// The ciphertext is too short or too long.
    EncryptedDataLenRange,
    /// A self-test of the validated module failed.
    FipsSelfTestFailed,
    /// The standard defines the function, and Jeton does not implement it.
    FunctionNotSupported,
    /// The result that the standard requires from the legacy parallel functions.
    FunctionNotParallel,
    /// The configuration is refused, or Jeton itself failed.
    GeneralError,
    /// There is not enough memory, or another limited resource is used up.
    HostMemory,
    /// No use of the key is left.
    KeyExhausted,
    /// The attributes of the key do not permit this use.
    KeyFunctionNotPermitted,
    /// The handle does not name a key, or a template such as `CKA_WRAP_TEMPLATE` forbids the call.
    KeyHandleInvalid,
    /// The key cannot be digested.
    KeyIndigestible,
    /// The key lacks the parts that a wrapped key must have, or it requires a trusted wrapping key.
    KeyNotWrappable,
    /// The key cannot be exported: `CKA_EXTRACTABLE` is false.
    KeyUnextractable,
    /// The handle of the unwrapping key does not name a key.
    UnwrappingKeyHandleInvalid,
    /// The unwrapping key's type does not fit the mechanism.
    UnwrappingKeyTypeInconsistent,
    /// The unwrapped data is not a key.
    WrappedKeyInvalid,
    /// No wrapped key has this length.
    WrappedKeyLenRange,
    /// The handle of the wrapping key does not name a key.
    WrappingKeyHandleInvalid,
    /// The wrapping key's type does not fit the mechanism.
    WrappingKeyTypeInconsistent,
    /// The size of the key is outside the range of the mechanism.
    KeySizeRange,
    /// The key's type does not fit the mechanism.
    KeyTypeInconsistent,
    /// The mechanism is unknown or denied, or does not support this function.
    MechanismInvalid,
    /// The mechanism's parameter is malformed.
    MechanismParamInvalid,
    /// The handle does not name an object that this session can see.
    ObjectHandleInvalid,
    /// An operation of this type is active already.
    OperationActive,
    /// No operation of this type is active.
    OperationNotInitialized,
    /// The PIN is wrong.
    PinIncorrect,
    /// The PIN contains characters that are not allowed.
    PinInvalid,
    /// The PIN is too short or too long.
    PinLenRange,
    /// The PIN is locked after too many wrong PINs.
    PinLocked,
    /// The token's random generator cannot be seeded.
    RandomSeedNotSupported,
    /// The limit of open sessions is reached.
    SessionCount,
    /// The slot has open sessions.
    SessionExists,
    /// The handle does not name a session.
    SessionHandleInvalid,
    /// The session was requested without `CKF_SERIAL_SESSION`. Legacy parallel sessions are not
    /// supported.
    SessionParallelNotSupported,
    /// The session is read-only.
    SessionReadOnly,
    /// The SO cannot log in, because a read-only session is open.
    SessionReadOnlyExists,
    /// A read-only session cannot be opened, because the SO is logged in.
    SessionReadWriteSoExists,
    /// The signature is wrong.
    SignatureInvalid,
    /// No signature of this key has this length.
    SignatureLenRange,
    /// The slot does not exist.
    SlotIdInvalid,
    /// The template lacks required attributes.
    TemplateIncomplete,
    /// The attributes of the template contradict each other, the key or the function.
    TemplateInconsistent,
    /// The token was never initialised, or its file is damaged or has an unknown format.
    TokenNotRecognized,
    /// The token cannot be written.
    TokenWriteProtected,
    /// This user is logged in already.
    UserAlreadyLoggedIn,
    /// The other user type is logged in.
    UserAnotherAlreadyLoggedIn,
    /// The call requires a login.
    UserNotLoggedIn,
    /// The user's PIN has not been set.
    UserPinNotInitialized,
    /// The user type does not exist.
    UserTypeInvalid,
    /// The key is not the one of the saved operation, or may no longer be used for it.
    KeyChanged,
    /// The saved operation needs a key to continue.
    KeyNeeded,
    /// The saved operation does not use a key of this type.
    KeyNotNeeded,
    /// No slot has an event.
    NoEvent,
    /// The function runs in the background; `C_AsyncComplete` returns its result.
    Pending,
    /// The data is not a saved state, or the state does not fit this session.
    SavedStateInvalid,
    /// The application forbids threads, which asynchronous sessions need.
    SessionAsyncNotSupported,
    /// The state of an operation cannot be saved.
    StateUnsaveable,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::HostMemory
    }
}
