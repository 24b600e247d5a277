//! The entry to the core: finds the module, catches panics, and converts the result to a `CK_RV`.
//!
//! The module is built once in a process and never freed, so a call that races with `C_Finalize`
//! reads valid memory. `C_Finalize` hides the module from later calls, and the next `C_Initialize`
//! shows it again. A forked child starts without a module: it must not touch its parent's locks and
//! files.

use std::any::{Any, type_name};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::time::Duration;

use cryptoki_sys::*;
use jeton::error::{Error, Result, require};
use jeton::functions::{Module, Threads};
use jeton::session::Session;
use jeton::store::fork;
use jeton_secret::clear_registers;
use tracing::debug;

use crate::number::session;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering, id, sleep};

/// The module that calls use. Null before `C_Initialize` and after `C_Finalize`.
static CURRENT: AtomicPtr<Module> = AtomicPtr::new(null_mut());
/// In [`CURRENT`]: each thread has its own module. It is no address of a module.
const PER_THREAD: *mut Module = std::ptr::without_provenance_mut(1);
thread_local! {
    static OF_THREAD: Cell<*const Module> = const { Cell::new(std::ptr::null()) };
    /// The number of registrations whose [`hold`] ran in this thread without its [`release`].
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}
/// The module of this process, kept from one `C_Initialize` to the next.
static KEPT: AtomicPtr<Module> = AtomicPtr::new(null_mut());
/// The parent's module in a forked child. It is unused, but leak checkers must see it as reachable.
#[used]
static LEFT_BEHIND: AtomicPtr<Module> = AtomicPtr::new(null_mut());
/// Whether a thread is inside `C_Initialize` or `C_Finalize`.
static CHANGING: AtomicBool = AtomicBool::new(false);
/// [`REGISTERED`], or the process in which a thread is registering the fork handlers.
static WATCHING: AtomicU32 = AtomicU32::new(0);
/// No process has this number.
const REGISTERED: u32 = u32::MAX;

/// The time between two checks whether another thread has left `C_Initialize` or `C_Finalize`.
const RETRY: Duration = Duration::from_millis(1);

// Checks that threads may share the module: `AtomicPtr` does not require this of its target.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Module>();
};

/// Runs the body of an exported function on the module.
pub(crate) fn call(work: impl FnOnce(&Module) -> Result<()>) -> CK_RV {
    guarded(|| work(module()?))
}

/// Runs the body of an exported function that uses operations of a session. No other call uses the
/// session meanwhile. An invalid session handle takes precedence over every other error, because
/// the body is not run.
pub(crate) fn call_session(
    handle: CK_SESSION_HANDLE,
    work: impl FnOnce(&mut Session) -> Result<()>,
) -> CK_RV {
    guarded(|| module()?.with_session(session(handle), work))
}

/// Runs the body of another exported function of a session. The module looks the session up where
/// it needs the session. An invalid session handle takes precedence over every other error except
/// `GeneralError` and `HostMemory`. PKCS#11 3.2, "Function return values": the codes for session
/// handles follow directly after the universal codes.
pub(crate) fn call_in(handle: CK_SESSION_HANDLE, work: impl FnOnce(&Module) -> Result<()>) -> CK_RV {
    call(|module| match work(module) {
        Ok(()) => Ok(()),
        Err(error @ (Error::GeneralError | Error::HostMemory)) => Err(error),
        // Check the session only after an error, so that a correct call does not pay for it.
        Err(error) => Err(module.no_session(session(handle)).unwrap_or(error)),
    })
}

/// Returns the code of a function that always has the same result. Before `C_Initialize` the result
/// is `CKR_CRYPTOKI_NOT_INITIALIZED`.
pub(crate) fn always(answer: CK_RV) -> CK_RV {
    if module().is_ok() { answer } else { CKR_CRYPTOKI_NOT_INITIALIZED }
}

/// Runs `work`, catches a panic, and returns the `CK_RV` of the result. Every exported function
/// that may use a key ends here, so the vector registers are cleared here.
pub(crate) fn guarded<F: FnOnce() -> Result<()>>(work: F) -> CK_RV {
    // The core keeps its state valid for later calls even after a panic. A panic is a bug, and the
    // log reports it.
    let code = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => CKR_OK,
        Ok(Err(error)) => refused(error, type_name::<F>()),
        Err(payload) => panicked(&*payload),
    };
    clear_registers();
    code
}

/// `C_Initialize`: builds the module of this process at the first call, starts it, and shows it to
/// later calls. `threads` says whether the module may create threads.
pub(crate) fn initialize(parameters: Option<&str>, threads: Threads) -> Result<()> {
    watch_forks()?;
    let _turn = Turn::take();
    require(module().is_err(), Error::AlreadyInitialized)?;
    // This thread holds the turn, so no thread opens a file before `prepare` is done.
    fork::prepare()?;
    let module = kept();
    module.set_threads(threads);
    module.initialize(parameters)?;
    CURRENT.store(std::ptr::from_ref(module).cast_mut(), Ordering::Release);
    Ok(())
}

/// `C_Finalize`: hides the module, then stops it.
pub(crate) fn finalize() -> Result<()> {
    let _turn = Turn::take();
    let module = module()?;
    CURRENT.store(null_mut(), Ordering::Release);
    module.finalize()
}

fn module<'a>() -> Result<&'a Module> {
    let current = CURRENT.load(Ordering::Acquire);
    if current.addr() > PER_THREAD.addr() {
        // SAFETY: `initialize` stored it: the module of `kept`, which lives as long as the process.
        return Ok(unsafe { &*current });
    }
    of_thread(current)
}

/// Returns the module of this thread, if the process serves several applications.
#[cold]
fn of_thread<'a>(current: *mut Module) -> Result<&'a Module> {
    require(!current.is_null(), Error::NotInitialized)?;
    // SAFETY: null, or the module of `with_module`, which waits for this call.
    unsafe { OF_THREAD.get().as_ref() }.ok_or(Error::NotInitialized)
}

/// From now on, every thread of this process calls the functions with a module of its own, which
/// [`with_module`] passes. The agent serves its applications in this way. `C_Initialize` and
/// `C_Finalize` must not be called.
pub fn serve_applications() {
    CURRENT.store(PER_THREAD, Ordering::Release);
}

/// Runs `work`. Functions of the C interface that `work` calls in this thread use `module`.
pub fn with_module<T>(module: &Module, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            OF_THREAD.set(std::ptr::null());
        }
    }
    OF_THREAD.set(module);
    let _reset = Reset;
    work()
}

/// Returns the address at which a buffer begins for the application. The memory of an application
/// of the agent lies elsewhere.
pub(crate) fn start_of(buffer: *const u8) -> usize {
    if CURRENT.load(Ordering::Relaxed) == PER_THREAD { 0 } else { buffer.expose_provenance() }
}

/// Returns the module of this process. Only the owner of the [`Turn`] calls this, so the module is
/// built once.
fn kept() -> &'static Module {
    // SAFETY: KEPT is null or the address of a module leaked below, which is never freed.
    if let Some(module) = unsafe { KEPT.load(Ordering::Acquire).as_ref() } {
        return module;
    }
    let module: &'static Module = Box::leak(Box::new(Module::new()));
    KEPT.store(std::ptr::from_ref(module).cast_mut(), Ordering::Release);
    module
}

/// The right to change the state of the library: `C_Initialize` and `C_Finalize` exclude each
/// other. It is not a mutex, because a child that is forked meanwhile must find it free. The
/// handler in the child can reset an atomic, but cannot unlock a mutex of another thread.
struct Turn;

impl Turn {
    fn take() -> Self {
        while CHANGING.swap(true, Ordering::Acquire) {
            sleep(RETRY);
        }
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        CHANGING.store(false, Ordering::Release);
    }
}

/// Registers the fork handlers before the first [`Turn`]. Other threads wait for it. A `Once` is
/// not used, because a child that is forked meanwhile would find it half done. Such a child
/// registers them itself, perhaps for the second time.
fn watch_forks() -> Result<()> {
    let own = id();
    loop {
        match WATCHING.load(Ordering::Acquire) {
            REGISTERED => return Ok(()),
            process if process == own => sleep(RETRY),
            before => {
                if WATCHING.compare_exchange(before, own, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    continue;
                }
                // SAFETY: these are functions of this library, which is never unmapped (build.rs:
                // nodelete).
                let failed = unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(forget_parent)) };
                WATCHING.store(if failed == 0 { REGISTERED } else { 0 }, Ordering::Release);
                require(failed == 0, Error::HostMemory)?;
            }
        }
    }
}

/// Runs before a fork. Only the first of two registrations locks the mutexes.
unsafe extern "C" fn hold() {
    if HOLDS.replace(HOLDS.get() + 1) == 0 {
        // SAFETY: the same thread calls `release` after the fork.
        unsafe { fork::hold() }
    }
}

unsafe extern "C" fn release() {
    if HOLDS.replace(HOLDS.get().saturating_sub(1)) == 1 {
        // SAFETY: `hold` ran in this thread.
        unsafe { fork::release() }
    }
}

/// Runs in the child of a fork. It must be async-signal-safe, because another thread of the parent
/// may have held any lock.
unsafe extern "C" fn forget_parent() {
    CURRENT.store(null_mut(), Ordering::Release);
    let parents = KEPT.load(Ordering::Acquire);
    if !parents.is_null() {
        LEFT_BEHIND.store(parents, Ordering::Release);
    }
    KEPT.store(null_mut(), Ordering::Release);
    CHANGING.store(false, Ordering::Release);
    fork::count();
    jeton_secret::forget_parent();
    // SAFETY: the handler that ran before the fork locked these mutexes.
    unsafe { release() };
}

/// Returns the code of an error, and logs it. `closure` is the type of the function's body.
#[cold]
fn refused(error: Error, closure: &str) -> CK_RV {
    debug!(function = function_name(closure), ?error, "the call failed");
    return_value(error)
}

/// Returns the name of the function of PKCS#11 that contains a closure.
fn function_name(closure: &str) -> &str {
    let name = closure.find("::C_").map_or(closure, |at| &closure[at + 2..]);
    name.split("::").next().unwrap_or(name)
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

    #[test]
    fn a_panic_becomes_a_general_error() {
        assert_eq!(guarded(|| panic!("a bug")), CKR_GENERAL_ERROR);
        assert_eq!(guarded(|| std::panic::panic_any(7_u8)), CKR_GENERAL_ERROR);
        assert_eq!(guarded(|| Ok(())), CKR_OK);
    }

    #[test]
    fn an_error_becomes_its_return_code() {
        assert_eq!(guarded(|| Err(Error::PinIncorrect)), CKR_PIN_INCORRECT);
        assert_eq!(guarded(|| Err(Error::BufferTooSmall { needed: 7 })), CKR_BUFFER_TOO_SMALL);
    }

    #[test]
    #[allow(non_snake_case, reason = "the name of a function of PKCS#11")]
    fn the_log_names_the_function_of_a_failed_call() {
        fn name_of<F: FnOnce()>(_: F) -> &'static str {
            function_name(type_name::<F>())
        }
        fn within(work: impl FnOnce()) -> &'static str {
            name_of(|| {
                work();
            })
        }
        fn C_DigestInit() -> [&'static str; 2] {
            [name_of(|| ()), within(|| ())]
        }
        assert_eq!(C_DigestInit(), ["C_DigestInit"; 2]);
        assert_eq!(function_name("a_closure"), "a_closure");
    }

    #[test]
    fn without_a_module_nothing_is_run() {
        assert_eq!(call(|_| panic!("never reached")), CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(call_in(1, |_| panic!("never reached")), CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(call_session(1, |_| panic!("never reached")), CKR_CRYPTOKI_NOT_INITIALIZED);
        assert_eq!(always(CKR_NO_EVENT), CKR_CRYPTOKI_NOT_INITIALIZED);
    }

    #[test]
    fn one_thread_at_a_time_has_the_turn() {
        static INSIDE: AtomicBool = AtomicBool::new(false);
        let enter = || {
            for _ in 0..50 {
                let _turn = Turn::take();
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
