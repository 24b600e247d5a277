//! `libjeton_client.so`: the functions of PKCS#11, carried out by `jeton-agent`.
//!
//! The module copies the arguments of each call, with the memory that they point to, sends them,
//! and copies the results back: `jeton_agent_protocol` has the table of functions. It has no crypto
//! library, no store and no configuration but the place of the agent. `docs/agent.md` describes it.
//!
//! # Safety
//!
//! Every exported function takes the pointers of its PKCS#11 declaration, under the contract that
//! `libjeton_pkcs11.so` has too.

#![allow(non_snake_case, reason = "the exported names are the specification's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of PKCS#11 above holds for every exported function"
)]
#![allow(clippy::too_many_arguments, reason = "the specification's")]

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use cryptoki_sys::*;
use jeton_agent_protocol::argument::*;
use jeton_agent_protocol::{Function, Parameter, functions};

mod application;
mod connection;

use application::Application;

/// The application of this process. It is never freed: a late call may use it.
static CURRENT: AtomicPtr<Application> = AtomicPtr::new(null_mut());
static KEPT: AtomicPtr<Application> = AtomicPtr::new(null_mut());
/// The parent's application in a forked child.
#[used]
static LEFT_BEHIND: AtomicPtr<Application> = AtomicPtr::new(null_mut());
static WATCHING: AtomicBool = AtomicBool::new(false);
static CHANGING: AtomicBool = AtomicBool::new(false);

fn guarded(work: impl FnOnce() -> CK_RV) -> CK_RV {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(CKR_GENERAL_ERROR)
}

fn current() -> Option<&'static Application> {
    // SAFETY: null, or an application that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Runs in the child of a fork: it has no application until it calls `C_Initialize`.
unsafe extern "C" fn forget_parent() {
    CURRENT.store(null_mut(), Ordering::Release);
    let parents = KEPT.swap(null_mut(), Ordering::AcqRel);
    if !parents.is_null() {
        LEFT_BEHIND.store(parents, Ordering::Release);
    }
    CHANGING.store(false, Ordering::Release);
    connection::close_all();
}

/// Runs `C_Initialize` or `C_Finalize` alone.
fn alone(work: impl FnOnce() -> CK_RV) -> CK_RV {
    while CHANGING.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    let code = guarded(work);
    CHANGING.store(false, Ordering::Release);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn C_Initialize(arguments: *mut c_void) -> CK_RV {
    let mut single = false;
    let mut parameters = None;
    if !arguments.is_null() {
        // SAFETY: not null; the application passes CK_C_INITIALIZE_ARGS.
        let given = unsafe { arguments.cast::<CK_C_INITIALIZE_ARGS>().read_unaligned() };
        single = given.flags & CKF_LIBRARY_CANT_CREATE_OS_THREADS != 0;
        if !given.pReserved.is_null() {
            // SAFETY: the library parameters, which NSS introduced: a string.
            parameters = unsafe { CStr::from_ptr(given.pReserved.cast()) }.to_str().ok();
        }
        let callbacks = [
            given.CreateMutex.is_some(),
            given.DestroyMutex.is_some(),
            given.LockMutex.is_some(),
            given.UnlockMutex.is_some(),
        ];
        let some = callbacks.contains(&true);
        if some && callbacks.contains(&false) {
            return CKR_ARGUMENTS_BAD;
        }
        // The application's own mutexes cannot be used.
        if some && given.flags & CKF_OS_LOCKING_OK == 0 {
            return CKR_CANT_LOCK;
        }
    }
    alone(|| {
        if !WATCHING.swap(true, Ordering::AcqRel) {
            // SAFETY: a function of this library, which is never unmapped (build.rs: nodelete).
            unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
        }
        if current().is_some() {
            return CKR_CRYPTOKI_ALREADY_INITIALIZED;
        }
        let mut kept = KEPT.load(Ordering::Acquire);
        if kept.is_null() {
            kept = Box::into_raw(Box::default());
            KEPT.store(kept, Ordering::Release);
        }
        // SAFETY: not null, and never freed.
        match unsafe { &*kept }.start(parameters, single) {
            Ok(()) => {
                CURRENT.store(kept, Ordering::Release);
                CKR_OK
            }
            Err(code) => code,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn C_Finalize(reserved: *mut c_void) -> CK_RV {
    if !reserved.is_null() {
        return CKR_ARGUMENTS_BAD;
    }
    alone(|| match current() {
        None => CKR_CRYPTOKI_NOT_INITIALIZED,
        Some(application) => {
            CURRENT.store(null_mut(), Ordering::Release);
            application.end();
            CKR_OK
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11 for the arguments.
unsafe fn call(function: Function, session: Option<CK_SESSION_HANDLE>, arguments: &[&dyn Sent]) -> CK_RV {
    guarded(|| match current() {
        None => CKR_CRYPTOKI_NOT_INITIALIZED,
        // SAFETY: the caller's promise.
        Some(application) => unsafe { application.call(function, session, arguments) },
    })
}

/// Defines the exported function of a row of the table. Takes the arguments one after the other:
/// first the parameters of the C function, then the values that are sent.
macro_rules! export {
    ($name:ident $session:expr; ($($parameters:tt)*) [$($sent:expr,)*]) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($parameters)*) -> CK_RV {
            // SAFETY: the contract of PKCS#11.
            unsafe { call(Function::$name, $session, &[$(&$sent,)*]) }
        }
    };
    ($name:ident $old:expr; ($($p:tt)*) [$($s:expr,)*] [Session $a:ident] $($rest:tt)*) => {
        export!($name Some($a); ($($p)* $a: CK_SESSION_HANDLE,) [$($s,)*] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Number $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: CK_ULONG,) [$($s,)* Number($a),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Flag $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: CK_BBOOL,) [$($s,)* Number(u64::from($a)),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Void $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut c_void,) [$($s,)* Void($a.cast()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Notify $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* _: CK_NOTIFY,) [$($s,)* Void(null_mut()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [In $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: CK_ULONG,) [$($s,)* In($a, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Ignored $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* _: *mut CK_BYTE, _: CK_ULONG,) [$($s,)*] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Text $a:ident $len:literal] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE,) [$($s,)* In($a, $len),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Name $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE,) [$($s,)* Name($a),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Out $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: *mut CK_ULONG,) [$($s,)* Out($a, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [List $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_ULONG, $b: *mut CK_ULONG,) [$($s,)* List($a, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Found $a:ident, $b:ident, $c:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ULONG, $b: CK_ULONG, $c: *mut CK_ULONG,) [$($s,)* Found($a, $b, $c),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Fill $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: CK_ULONG,) [$($s,)* Fill($a, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Put $a:ident $type:ty] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut $type,) [$($s,)* Put($a),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Mechanism $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, None),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [MessageInit $a:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, Some(Parameter::MessageInit)),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [MessageMechanism $a:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, Some(Parameter::Message)),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Message $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut c_void, $b: CK_ULONG,) [$($s,)* Message($a.cast(), $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Template $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ATTRIBUTE, $b: CK_ULONG,) [$($s,)* Template($a, $b, TEMPLATE),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Values $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ATTRIBUTE, $b: CK_ULONG,) [$($s,)* Template($a, $b, VALUES),] $($rest)*);
    };
}

macro_rules! exports {
    ($($name:ident($($argument:tt)*);)*) => {
        $(export!($name None; () [] $($argument)*);)*
    };
}

functions!(exports);

/// The two functions of parallel sessions always refuse.
unsafe extern "C" fn parallel() -> CK_RV {
    if current().is_some() { CKR_FUNCTION_NOT_PARALLEL } else { CKR_CRYPTOKI_NOT_INITIALIZED }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn C_GetFunctionStatus(_: CK_SESSION_HANDLE) -> CK_RV {
    // SAFETY: it takes no pointer.
    unsafe { parallel() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn C_CancelFunction(_: CK_SESSION_HANDLE) -> CK_RV {
    // SAFETY: it takes no pointer.
    unsafe { parallel() }
}

/// Each list extends the previous one. The compiler rejects a missing or a repeated name.
macro_rules! lists {
    (2.40 { $($first:ident)* } 3.0 { $($second:ident)* } 3.2 { $($third:ident)* }) => {
        static LIST_2_40: CK_FUNCTION_LIST = CK_FUNCTION_LIST {
            version: CK_VERSION { major: 2, minor: 40 },
            $($first: Some($first),)*
        };
        static LIST_3_0: CK_FUNCTION_LIST_3_0 = CK_FUNCTION_LIST_3_0 {
            version: CK_VERSION { major: 3, minor: 0 },
            $($first: Some($first),)* $($second: Some($second),)*
        };
        static LIST_3_2: CK_FUNCTION_LIST_3_2 = CK_FUNCTION_LIST_3_2 {
            version: CK_VERSION { major: 3, minor: 2 },
            $($first: Some($first),)* $($second: Some($second),)* $($third: Some($third),)*
        };
    };
}

lists! {
    2.40 {
        C_Initialize C_Finalize C_GetInfo C_GetFunctionList C_GetSlotList C_GetSlotInfo C_GetTokenInfo
        C_GetMechanismList C_GetMechanismInfo C_InitToken C_InitPIN C_SetPIN C_OpenSession C_CloseSession
        C_CloseAllSessions C_GetSessionInfo C_GetOperationState C_SetOperationState C_Login C_Logout
        C_CreateObject C_CopyObject C_DestroyObject C_GetObjectSize C_GetAttributeValue
        C_SetAttributeValue C_FindObjectsInit C_FindObjects C_FindObjectsFinal C_EncryptInit C_Encrypt
        C_EncryptUpdate C_EncryptFinal C_DecryptInit C_Decrypt C_DecryptUpdate C_DecryptFinal C_DigestInit
        C_Digest C_DigestUpdate C_DigestKey C_DigestFinal C_SignInit C_Sign C_SignUpdate C_SignFinal
        C_SignRecoverInit C_SignRecover C_VerifyInit C_Verify C_VerifyUpdate C_VerifyFinal
        C_VerifyRecoverInit C_VerifyRecover C_DigestEncryptUpdate C_DecryptDigestUpdate
        C_SignEncryptUpdate C_DecryptVerifyUpdate C_GenerateKey C_GenerateKeyPair C_WrapKey C_UnwrapKey
        C_DeriveKey C_SeedRandom C_GenerateRandom C_GetFunctionStatus C_CancelFunction C_WaitForSlotEvent
    }
    3.0 {
        C_GetInterfaceList C_GetInterface C_LoginUser C_SessionCancel C_MessageEncryptInit
        C_EncryptMessage C_EncryptMessageBegin C_EncryptMessageNext C_MessageEncryptFinal
        C_MessageDecryptInit C_DecryptMessage C_DecryptMessageBegin C_DecryptMessageNext
        C_MessageDecryptFinal C_MessageSignInit C_SignMessage C_SignMessageBegin C_SignMessageNext
        C_MessageSignFinal C_MessageVerifyInit C_VerifyMessage C_VerifyMessageBegin C_VerifyMessageNext
        C_MessageVerifyFinal
    }
    3.2 {
        C_EncapsulateKey C_DecapsulateKey C_VerifySignatureInit C_VerifySignature C_VerifySignatureUpdate
        C_VerifySignatureFinal C_GetSessionValidationFlags C_AsyncComplete C_AsyncGetID C_AsyncJoin
        C_WrapKeyAuthenticated C_UnwrapKeyAuthenticated
    }
}

struct Interfaces([CK_INTERFACE; 3]);

// SAFETY: the pointers point to constants of this library, which nobody writes.
unsafe impl Sync for Interfaces {}

/// The name of the standard's interfaces.
const STANDARD: &CStr = c"PKCS 11";

/// The interfaces, the default first.
static INTERFACES: Interfaces = Interfaces([
    standard(from_ref(&LIST_3_2).cast()),
    standard(from_ref(&LIST_3_0).cast()),
    standard(from_ref(&LIST_2_40).cast()),
]);

const fn standard(functions: *const c_void) -> CK_INTERFACE {
    CK_INTERFACE {
        pInterfaceName: STANDARD.as_ptr().cast_mut().cast(),
        pFunctionList: functions.cast_mut(),
        flags: 0,
    }
}

/// Returns the function list of PKCS#11 2.40.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionList(functions: *mut *mut CK_FUNCTION_LIST) -> CK_RV {
    if functions.is_null() {
        return CKR_ARGUMENTS_BAD;
    }
    // SAFETY: not null; writable by the contract of PKCS#11.
    unsafe { functions.write_unaligned(from_ref(&LIST_2_40).cast_mut()) };
    CKR_OK
}

/// Returns the interfaces of this module, the newest first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterfaceList(interfaces: *mut CK_INTERFACE, count: *mut CK_ULONG) -> CK_RV {
    if count.is_null() {
        return CKR_ARGUMENTS_BAD;
    }
    let needed = INTERFACES.0.len();
    // SAFETY: not null; readable and writable by the contract of PKCS#11, and so are the interfaces.
    unsafe {
        let room = count.read_unaligned();
        count.write_unaligned(needed as CK_ULONG);
        if interfaces.is_null() {
            return CKR_OK;
        }
        if room < needed as CK_ULONG {
            return CKR_BUFFER_TOO_SMALL;
        }
        INTERFACES.0.iter().enumerate().for_each(|(index, one)| interfaces.add(index).write_unaligned(*one));
    }
    CKR_OK
}

/// Returns the first interface with this name, version and flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterface(
    name: *mut CK_UTF8CHAR,
    version: *mut CK_VERSION,
    interface: *mut *mut CK_INTERFACE,
    flags: CK_FLAGS,
) -> CK_RV {
    // SAFETY: the contract of PKCS#11 for the pointers. Each list begins with its version.
    unsafe {
        let named = name.is_null() || CStr::from_ptr(name.cast()) == STANDARD;
        let wanted = version.as_ref().map(|version| (version.major, version.minor));
        let fits = |one: &&CK_INTERFACE| {
            let version = one.pFunctionList.cast::<CK_VERSION>().read();
            one.flags & flags == flags && wanted.is_none_or(|wanted| wanted == (version.major, version.minor))
        };
        match INTERFACES.0.iter().filter(|_| named).find(fits) {
            Some(found) if !interface.is_null() => {
                interface.write_unaligned(from_ref(found).cast_mut());
                CKR_OK
            }
            _ => CKR_ARGUMENTS_BAD,
        }
    }
}
