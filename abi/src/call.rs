//! The entry to the token: finds it, catches panics, and converts the result to a `CK_RV`.
//!
//! The token is built once in a process and never freed, so a call that races with `C_Finalize`
//! reads valid memory. `C_Finalize` hides the token from later calls, and the next `C_Initialize`
//! shows it again. A forked child starts without a token: it must not touch its parent's locks and
//! files.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{from_ref, null_mut};
use std::time::Duration;

use cryptoki_sys::*;
use jeton_secret::clear_registers;
use jeton_words::error::{Error, Result, require};
use jeton_words::id::SessionHandle;
use jeton_words::token::{Function, Token};
use tracing::debug;

use crate::ck_ulong::session;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering, id, sleep};

/// The state of a module: a static of its shared object.
pub struct Entry<T: 'static> {
    /// The token that calls use. Null before `C_Initialize` and after `C_Finalize`.
    current: AtomicPtr<T>,
    /// The token of this process, kept from one `C_Initialize` to the next.
    kept: AtomicPtr<T>,
    /// The parent's token in a forked child. It is unused, but leak checkers must see it as
    /// reachable.
    left_behind: AtomicPtr<T>,
    /// Whether a thread is inside `C_Initialize` or `C_Finalize`.
    changing: AtomicBool,
    /// [`REGISTERED`], or the process in which a thread is registering the fork handlers.
    watching: AtomicU32,
    hooks: Hooks<T>,
}

/// What an entry needs to know of its token.
pub struct Hooks<T> {
    /// Returns a token that is not initialised.
    pub new: fn() -> T,
    /// Registers handlers that call [`Entry::hold`], [`Entry::release`] and
    /// [`Entry::forget_parent`]. Returns whether it succeeds.
    pub register: fn() -> bool,
    /// Runs before the first `C_Initialize`.
    pub prepare: fn() -> Result<()>,
    /// Runs before a fork. The same thread calls `release` after the fork, in the parent and in the
    /// child.
    pub hold: unsafe fn(),
    /// Runs after a fork.
    pub release: unsafe fn(),
    /// Runs in the child of a fork. It must be async-signal-safe, because another thread of the
    /// parent may have held any lock.
    pub forget: fn(),
}

thread_local! {
    /// The number of registrations whose [`Entry::hold`] ran in this thread without its
    /// [`Entry::release`].
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}
/// No process has this number.
const REGISTERED: u32 = u32::MAX;

/// The time between two checks whether another thread has left `C_Initialize` or `C_Finalize`.
const RETRY: Duration = Duration::from_millis(1);

/// Why a call of a session failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument was refused, and the token was not called.
    Argument(Error),
    /// The token failed.
    Token(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Argument(error)
    }
}

/// Marks the answer of a token, whose errors are final.
#[inline]
pub(crate) fn answered<A>(answer: Result<A>) -> Result<A, Failure> {
    answer.map_err(Failure::Token)
}

impl<T: Sync> Entry<T> {
    /// Returns the state of a module before the first `C_Initialize`.
    pub const fn new(hooks: Hooks<T>) -> Self {
        Self {
            current: AtomicPtr::new(null_mut()),
            kept: AtomicPtr::new(null_mut()),
            left_behind: AtomicPtr::new(null_mut()),
            changing: AtomicBool::new(false),
            watching: AtomicU32::new(0),
            hooks,
        }
    }

    /// Runs the body of an exported function without a session.
    pub(crate) fn call(&self, function: Function, work: impl FnOnce(&T) -> Result<()>) -> CK_RV {
        guarded(|| function.name(), || work(self.token()?))
    }

    /// Returns the code of a function that always has the same result. Before `C_Initialize` the
    /// result is `CKR_CRYPTOKI_NOT_INITIALIZED`.
    pub(crate) fn always(&self, answer: CK_RV) -> CK_RV {
        if self.token().is_ok() { answer } else { CKR_CRYPTOKI_NOT_INITIALIZED }
    }

    /// `C_Initialize`: builds the token of this process at the first call, starts it, and shows it
    /// to later calls.
    pub(crate) fn initialize(&self, start: impl FnOnce(&T) -> Result<()>) -> Result<()> {
        self.watch_forks()?;
        let _turn = Turn::take(&self.changing);
        require(self.token().is_err(), Error::AlreadyInitialized)?;
        // This thread has the turn, so no thread opens a file before `prepare` is done.
        (self.hooks.prepare)()?;
        let token = self.kept();
        start(token)?;
        self.current.store(from_ref(token).cast_mut(), Ordering::Release);
        Ok(())
    }

    /// `C_Finalize`: hides the token, then stops it.
    pub(crate) fn finalize(&self, stop: impl FnOnce(&T) -> Result<()>) -> Result<()> {
        let _turn = Turn::take(&self.changing);
        let token = self.token()?;
        self.current.store(null_mut(), Ordering::Release);
        stop(token)
    }

    #[inline]
    pub(crate) fn token(&self) -> Result<&T> {
        // SAFETY: null, or the token of `kept`, which `initialize` stored. It lives as long as the
        // process.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }.ok_or(Error::NotInitialized)
    }

    /// Returns the token of this process. Only the owner of the [`Turn`] calls this, so the token
    /// is built once.
    fn kept(&self) -> &'static T {
        // SAFETY: null, or the address of a token leaked below, which is never freed.
        if let Some(token) = unsafe { self.kept.load(Ordering::Acquire).as_ref() } {
            return token;
        }
        let token: &'static T = Box::leak(Box::new((self.hooks.new)()));
        self.kept.store(from_ref(token).cast_mut(), Ordering::Release);
        token
    }

    /// Registers the fork handlers before the first [`Turn`]. Other threads wait for it. A `Once`
    /// is not used, because a child that is forked meanwhile would find it half done. Such a child
    /// registers them itself, perhaps for the second time.
    fn watch_forks(&self) -> Result<()> {
        let own = id();
        loop {
            match self.watching.load(Ordering::Acquire) {
                REGISTERED => return Ok(()),
                process if process == own => sleep(RETRY),
                before => {
                    let won =
                        self.watching.compare_exchange(before, own, Ordering::AcqRel, Ordering::Acquire);
                    if won.is_err() {
                        continue;
                    }
                    let registered = (self.hooks.register)();
                    self.watching.store(if registered { REGISTERED } else { 0 }, Ordering::Release);
                    require(registered, Error::HostMemory)?;
                }
            }
        }
    }

    /// Runs before a fork. Only the first of two registrations locks the mutexes.
    pub fn hold(&self) {
        if HOLDS.replace(HOLDS.get() + 1) == 0 {
            // SAFETY: the same thread calls `release` after the fork.
            unsafe { (self.hooks.hold)() }
        }
    }

    /// Runs after a fork in the parent. [`hold`](Self::hold) ran before it in the same thread.
    pub fn release(&self) {
        if HOLDS.replace(HOLDS.get().saturating_sub(1)) == 1 {
            // SAFETY: `hold` ran in this thread.
            unsafe { (self.hooks.release)() }
        }
    }

    /// Runs in the child of a fork. It is async-signal-safe: see [`Hooks::forget`].
    pub fn forget_parent(&self) {
        self.current.store(null_mut(), Ordering::Release);
        let parents = self.kept.load(Ordering::Acquire);
        if !parents.is_null() {
            self.left_behind.store(parents, Ordering::Release);
        }
        self.kept.store(null_mut(), Ordering::Release);
        self.changing.store(false, Ordering::Release);
        (self.hooks.forget)();
        jeton_secret::forget_parent();
        self.release();
    }
}

impl<T: Token> Entry<T> {
    /// Runs the body of an exported function with a session. If an argument is refused, the token
    /// says which error the caller gets, and ends what the function ends.
    #[inline(always)]
    pub(crate) fn call_in(
        &self,
        function: Function,
        handle: CK_SESSION_HANDLE,
        work: impl FnOnce(&T, SessionHandle) -> Result<(), Failure>,
    ) -> CK_RV {
        let body = || {
            let (token, session) = (self.token()?, session(handle));
            work(token, session).map_err(|failure| match failure {
                Failure::Token(error) => error,
                Failure::Argument(error) => token.refused(session, function, error),
            })
        };
        guarded(|| function.name(), body)
    }
}

/// Runs `work`, catches a panic, and returns the `CK_RV` of the result. Every exported function
/// that may use a key ends here, so the vector registers are cleared here. `name` is that of the
/// function.
#[inline(always)]
pub(crate) fn guarded(name: impl FnOnce() -> &'static str, work: impl FnOnce() -> Result<()>) -> CK_RV {
    // The token keeps its state valid for later calls even after a panic. A panic is a bug, and the
    // log reports it.
    let code = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => CKR_OK,
        Ok(Err(error)) => failed(error, name()),
        Err(payload) => panicked(&*payload),
    };
    clear_registers();
    code
}

/// The right to change the state of the library: `C_Initialize` and `C_Finalize` exclude each
/// other. It is not a mutex, because a child that is forked meanwhile must find it free. The
/// handler in the child can reset an atomic, but cannot unlock a mutex of another thread.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(changing: &'a AtomicBool) -> Self {
        while changing.swap(true, Ordering::Acquire) {
            sleep(RETRY);
        }
        Self(changing)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Returns the code of an error, and logs it.
#[cold]
fn failed(error: Error, function: &str) -> CK_RV {
    debug!(function, ?error, "the call failed");
    return_value(error)
}

#[cold]
fn panicked(payload: &(dyn Any + Send)) -> CK_RV {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    // The log may panic too.
    let _ = catch_unwind(|| tracing::error!(panic = text, "a call panicked"));
    CKR_GENERAL_ERROR
}

/// Converts the error of a function that makes or changes an object by a template. The lists of
/// PKCS#11 3.2 do not have `CKR_KEY_SIZE_RANGE` for these functions, and the code is for "the
/// supplied key's size". "Creating objects": an attribute has an invalid value.
pub(crate) fn in_template(error: Error) -> Error {
    if error == Error::KeySizeRange { Error::AttributeValueInvalid } else { error }
}

/// Returns the PKCS#11 return code of an error.
const fn return_value(error: Error) -> CK_RV {
    match error {
        Error::ArgumentsBad => CKR_ARGUMENTS_BAD,
        Error::AttributeReadOnly => CKR_ATTRIBUTE_READ_ONLY,
        Error::AttributeSensitive => CKR_ATTRIBUTE_SENSITIVE,
        Error::AttributeTypeInvalid => CKR_ATTRIBUTE_TYPE_INVALID,
        Error::AttributeValueInvalid => CKR_ATTRIBUTE_VALUE_INVALID,
        Error::AeadDecryptFailed => CKR_AEAD_DECRYPT_FAILED,
        Error::ActionProhibited => CKR_ACTION_PROHIBITED,
        Error::BufferTooSmall { needed: _ } => CKR_BUFFER_TOO_SMALL,
        Error::AlreadyInitialized => CKR_CRYPTOKI_ALREADY_INITIALIZED,
        Error::NotInitialized => CKR_CRYPTOKI_NOT_INITIALIZED,
        Error::CurveNotSupported => CKR_CURVE_NOT_SUPPORTED,
        Error::DataInvalid => CKR_DATA_INVALID,
        Error::DataLenRange => CKR_DATA_LEN_RANGE,
        Error::DeviceError => CKR_DEVICE_ERROR,
        Error::DeviceMemory => CKR_DEVICE_MEMORY,
        Error::DeviceRemoved => CKR_DEVICE_REMOVED,
        Error::DomainParamsInvalid => CKR_DOMAIN_PARAMS_INVALID,
        Error::EncryptedDataInvalid => CKR_ENCRYPTED_DATA_INVALID,
        Error::EncryptedDataLenRange => CKR_ENCRYPTED_DATA_LEN_RANGE,
        Error::FipsSelfTestFailed => CKR_FIPS_SELF_TEST_FAILED,
        Error::FunctionNotSupported => CKR_FUNCTION_NOT_SUPPORTED,
        Error::FunctionNotParallel => CKR_FUNCTION_NOT_PARALLEL,
        Error::GeneralError => CKR_GENERAL_ERROR,
        Error::HostMemory => CKR_HOST_MEMORY,
        Error::KeyExhausted => CKR_KEY_EXHAUSTED,
        Error::KeyFunctionNotPermitted => CKR_KEY_FUNCTION_NOT_PERMITTED,
        Error::KeyHandleInvalid => CKR_KEY_HANDLE_INVALID,
        Error::KeyIndigestible => CKR_KEY_INDIGESTIBLE,
        Error::KeyNotWrappable => CKR_KEY_NOT_WRAPPABLE,
        Error::KeyUnextractable => CKR_KEY_UNEXTRACTABLE,
        Error::UnwrappingKeyHandleInvalid => CKR_UNWRAPPING_KEY_HANDLE_INVALID,
        Error::UnwrappingKeyTypeInconsistent => CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT,
        Error::WrappedKeyInvalid => CKR_WRAPPED_KEY_INVALID,
        Error::WrappedKeyLenRange => CKR_WRAPPED_KEY_LEN_RANGE,
        Error::WrappingKeyHandleInvalid => CKR_WRAPPING_KEY_HANDLE_INVALID,
        Error::WrappingKeyTypeInconsistent => CKR_WRAPPING_KEY_TYPE_INCONSISTENT,
        Error::KeySizeRange => CKR_KEY_SIZE_RANGE,
        Error::KeyTypeInconsistent => CKR_KEY_TYPE_INCONSISTENT,
        Error::MechanismInvalid => CKR_MECHANISM_INVALID,
        Error::MechanismParamInvalid => CKR_MECHANISM_PARAM_INVALID,
        Error::ObjectHandleInvalid => CKR_OBJECT_HANDLE_INVALID,
        Error::OperationActive => CKR_OPERATION_ACTIVE,
        Error::OperationNotInitialized => CKR_OPERATION_NOT_INITIALIZED,
        Error::PinIncorrect => CKR_PIN_INCORRECT,
        Error::PinInvalid => CKR_PIN_INVALID,
        Error::PinLenRange => CKR_PIN_LEN_RANGE,
        Error::PinLocked => CKR_PIN_LOCKED,
        Error::RandomSeedNotSupported => CKR_RANDOM_SEED_NOT_SUPPORTED,
        Error::SessionCount => CKR_SESSION_COUNT,
        Error::SessionExists => CKR_SESSION_EXISTS,
        Error::SessionHandleInvalid => CKR_SESSION_HANDLE_INVALID,
        Error::SessionParallelNotSupported => CKR_SESSION_PARALLEL_NOT_SUPPORTED,
        Error::SessionReadOnly => CKR_SESSION_READ_ONLY,
        Error::SessionReadOnlyExists => CKR_SESSION_READ_ONLY_EXISTS,
        Error::SessionReadWriteSoExists => CKR_SESSION_READ_WRITE_SO_EXISTS,
        Error::SignatureInvalid => CKR_SIGNATURE_INVALID,
        Error::SignatureLenRange => CKR_SIGNATURE_LEN_RANGE,
        Error::SlotIdInvalid => CKR_SLOT_ID_INVALID,
        Error::TemplateIncomplete => CKR_TEMPLATE_INCOMPLETE,
        Error::TemplateInconsistent => CKR_TEMPLATE_INCONSISTENT,
        Error::TokenNotRecognized => CKR_TOKEN_NOT_RECOGNIZED,
        Error::TokenWriteProtected => CKR_TOKEN_WRITE_PROTECTED,
        Error::UserAlreadyLoggedIn => CKR_USER_ALREADY_LOGGED_IN,
        Error::UserAnotherAlreadyLoggedIn => CKR_USER_ANOTHER_ALREADY_LOGGED_IN,
        Error::UserNotLoggedIn => CKR_USER_NOT_LOGGED_IN,
        Error::UserPinNotInitialized => CKR_USER_PIN_NOT_INITIALIZED,
        Error::UserTypeInvalid => CKR_USER_TYPE_INVALID,
        Error::KeyChanged => CKR_KEY_CHANGED,
        Error::KeyNeeded => CKR_KEY_NEEDED,
        Error::KeyNotNeeded => CKR_KEY_NOT_NEEDED,
        Error::NoEvent => CKR_NO_EVENT,
        Error::Pending => CKR_PENDING,
        Error::SavedStateInvalid => CKR_SAVED_STATE_INVALID,
        Error::SessionAsyncNotSupported => CKR_SESSION_ASYNC_NOT_SUPPORTED,
        Error::StateUnsaveable => CKR_STATE_UNSAVEABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(work: impl FnOnce() -> Result<()>) -> CK_RV {
        guarded(|| "a function", work)
    }

    #[test]
    fn a_panic_becomes_a_general_error() {
        assert_eq!(code(|| panic!("a bug")), CKR_GENERAL_ERROR);
        assert_eq!(code(|| std::panic::panic_any(7_u8)), CKR_GENERAL_ERROR);
        assert_eq!(code(|| Ok(())), CKR_OK);
    }

    #[test]
    fn an_error_becomes_its_return_code() {
        assert_eq!(code(|| Err(Error::PinIncorrect)), CKR_PIN_INCORRECT);
        assert_eq!(code(|| Err(Error::BufferTooSmall { needed: 7 })), CKR_BUFFER_TOO_SMALL);
    }

    #[test]
    fn without_a_token_nothing_is_run() {
        let entry = Entry::new(Hooks {
            new: || panic!("never built"),
            register: || true,
            prepare: || Ok(()),
            hold: || (),
            release: || (),
            forget: || (),
        });
        let never = |_: &u8| panic!("never reached");
        assert_eq!(entry.call(Function::C_GetSlotInfo, never), CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(entry.always(CKR_NO_EVENT), CKR_CRYPTOKI_NOT_INITIALIZED);
    }

    #[test]
    fn one_thread_at_a_time_has_the_turn() {
        static CHANGING: AtomicBool = AtomicBool::new(false);
        static INSIDE: AtomicBool = AtomicBool::new(false);
        let enter = || {
            for _ in 0..50 {
                let _turn = Turn::take(&CHANGING);
                assert!(!INSIDE.swap(true, Ordering::SeqCst));
                std::thread::yield_now();
                INSIDE.store(false, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(enter);
            }
        });
    }
}
