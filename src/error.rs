//! The outcomes of a call. The C interface maps each to its `CKR_*` value; detail goes to the log where it is known.

/// The result of everything in the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed: one variant per return value of PKCS#11 3.2 ("Function return values") that the core uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The caller's arguments contradict each other or lie outside what the function takes.
    ArgumentsBad,
    /// The attribute may not be changed, or not in this direction.
    AttributeReadOnly,
    /// The attribute's value is secret.
    AttributeSensitive,
    /// The object has no such attribute.
    AttributeTypeInvalid,
    /// The attribute's value is malformed or not allowed here.
    AttributeValueInvalid,
    /// Tag, ciphertext or associated data of a message are not what was encrypted.
    AeadDecryptFailed,
    /// The object may not be copied, destroyed or changed: its own attributes say so.
    ActionProhibited,
    /// The output does not fit; `needed` bytes would do. The operation stays active.
    BufferTooSmall {
        /// Length in bytes that certainly suffices.
        needed: usize,
    },
    /// `C_Initialize` came twice.
    AlreadyInitialized,
    /// No `C_Initialize` yet, or the process forked since.
    NotInitialized,
    /// The curve is none that this token knows.
    CurveNotSupported,
    /// The input is malformed for the mechanism.
    DataInvalid,
    /// The input is too short or too long for the mechanism.
    DataLenRange,
    /// The store or a library failed; the log says how.
    DeviceError,
    /// The store has no room left.
    DeviceMemory,
    /// Another process initialised the token anew: what this one has is of the token before.
    DeviceRemoved,
    /// The domain parameters are malformed.
    DomainParamsInvalid,
    /// The ciphertext does not decrypt.
    EncryptedDataInvalid,
    /// The ciphertext is too short or too long.
    EncryptedDataLenRange,
    /// The function exists in the standard and does nothing here.
    FunctionNotSupported,
    /// The standard's answer of the legacy parallel functions.
    FunctionNotParallel,
    /// Something that should not happen did; the log says what.
    GeneralError,
    /// Memory could not be had.
    HostMemory,
    /// The key may not be used for this, by its attributes.
    KeyFunctionNotPermitted,
    /// The handle names no key.
    KeyHandleInvalid,
    /// The key cannot be digested.
    KeyIndigestible,
    /// The key has not the parts that a wrapped key must have, or asks for a trusted wrapping key.
    KeyNotWrappable,
    /// The key may not leave the token: `CKA_EXTRACTABLE` is false.
    KeyUnextractable,
    /// The unwrapping key's handle names no key.
    UnwrappingKeyHandleInvalid,
    /// The unwrapping key's type does not fit the mechanism.
    UnwrappingKeyTypeInconsistent,
    /// What was unwrapped is no key.
    WrappedKeyInvalid,
    /// The wrapped key has a length that none has.
    WrappedKeyLenRange,
    /// The wrapping key's handle names no key.
    WrappingKeyHandleInvalid,
    /// The wrapping key's type does not fit the mechanism.
    WrappingKeyTypeInconsistent,
    /// The key's size is outside what the mechanism takes.
    KeySizeRange,
    /// The key's type does not fit the mechanism.
    KeyTypeInconsistent,
    /// The mechanism is unknown, denied, or cannot do this function.
    MechanismInvalid,
    /// The mechanism's parameter is malformed.
    MechanismParamInvalid,
    /// The handle names no object that this session sees.
    ObjectHandleInvalid,
    /// An operation of this kind is active already.
    OperationActive,
    /// No operation of this kind is active.
    OperationNotInitialized,
    /// The PIN is wrong.
    PinIncorrect,
    /// The PIN has characters that are not allowed.
    PinInvalid,
    /// The PIN is too short or too long.
    PinLenRange,
    /// Too many wrong PINs.
    PinLocked,
    /// The token has no seedable generator.
    RandomSeedNotSupported,
    /// No more sessions can be opened.
    SessionCount,
    /// Sessions are open.
    SessionExists,
    /// The handle names no session.
    SessionHandleInvalid,
    /// Legacy sessions without `CKF_SERIAL_SESSION` do not exist.
    SessionParallelNotSupported,
    /// The session is read-only.
    SessionReadOnly,
    /// A read-only session is open, so the SO cannot log in.
    SessionReadOnlyExists,
    /// The SO is logged in, so no read-only session can be opened.
    SessionReadWriteSoExists,
    /// The signature is wrong.
    SignatureInvalid,
    /// The signature has a length that no signature of this key has.
    SignatureLenRange,
    /// There is no such slot.
    SlotIdInvalid,
    /// Attributes are missing in the template.
    TemplateIncomplete,
    /// Attributes of the template contradict each other, the key or the function.
    TemplateInconsistent,
    /// The slot holds no initialised token.
    TokenNotPresent,
    /// The token's file is damaged or of a newer format.
    TokenNotRecognized,
    /// The token cannot be written.
    TokenWriteProtected,
    /// This user is logged in already.
    UserAlreadyLoggedIn,
    /// The other user is logged in.
    UserAnotherAlreadyLoggedIn,
    /// The call needs a login.
    UserNotLoggedIn,
    /// The user's PIN was never set.
    UserPinNotInitialized,
    /// There is no such user type.
    UserTypeInvalid,
    /// The key is not the one that the saved operation had, or may not be used for it any more.
    KeyChanged,
    /// The saved operation goes on with a key only.
    KeyNeeded,
    /// No saved operation has a key of this kind.
    KeyNotNeeded,
    /// No slot has an event.
    NoEvent,
    /// The function was started and is not done; `C_AsyncComplete` tells.
    Pending,
    /// That is no saved state, or not one of such a session.
    SavedStateInvalid,
    /// The application forbids threads, which asynchronous sessions need.
    SessionAsyncNotSupported,
    /// The state of an operation cannot be saved.
    StateUnsaveable,
}
