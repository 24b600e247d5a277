//! `libjeton_client.so`: the functions of PKCS#11, carried out by `jeton-agent`.
//!
//! The module copies the arguments of each call, with the memory that they point to, sends them,
//! and copies the results back: `jeton_agent_wire` has the table of functions. It has no crypto
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

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton_agent_wire::layout::{ATTRIBUTE, ATTRIBUTE_READ};
use jeton_agent_wire::{Function, Parameter, functions};

use self::sent::{Fill, In, Items, Mechanism, Message, Name, Number, Put, Sent, Short, Template, Void};

mod application;
mod capture;
mod connection;
mod pool;
mod sent;
#[cfg_attr(windows, path = "system/windows.rs")]
#[cfg_attr(not(windows), path = "system/unix.rs")]
mod system;

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
    system::close_all();
}

/// The time between two checks whether another thread has left `C_Initialize` or `C_Finalize`.
const RETRY: Duration = Duration::from_millis(1);

/// Runs `C_Initialize` or `C_Finalize` alone. It is not a mutex, because a child that is forked
/// meanwhile must find it free.
fn alone(work: impl FnOnce() -> CK_RV) -> CK_RV {
    while CHANGING.swap(true, Ordering::Acquire) {
        sleep(RETRY);
    }
    let code = guarded(work);
    CHANGING.store(false, Ordering::Release);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn C_Initialize(arguments: *mut c_void) -> CK_RV {
    // SAFETY: the caller's promise.
    let given = match unsafe { system::initialization(arguments) } {
        Ok(given) => given,
        Err(code) => return code,
    };
    let called = Instant::now();
    alone(|| {
        if !WATCHING.swap(true, Ordering::AcqRel) {
            system::at_fork(forget_parent);
        }
        if current().is_some() {
            return CKR_CRYPTOKI_ALREADY_INITIALIZED;
        }
        let mut kept = KEPT.load(Ordering::Acquire);
        if kept.is_null() {
            kept = Box::into_raw(Box::default());
            KEPT.store(kept, Ordering::Release);
        }
        let is_again = !LEFT_BEHIND.load(Ordering::Acquire).is_null();
        // SAFETY: not null, and never freed.
        match unsafe { &*kept }.start(given.parameters, given.single, is_again, called) {
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
        export!($name Some(system::number($a)); ($($p)* $a: CK_SESSION_HANDLE,) [$($s,)*] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Number $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: CK_ULONG,) [$($s,)* Number(system::number($a)),] $($rest)*);
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
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: CK_ULONG,) [$($s,)* In($a, system::number($b)),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Short $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: CK_ULONG,) [$($s,)* Short($a, system::number($b)),] $($rest)*);
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
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: *mut CK_ULONG,) [$($s,)* Items($a, 1, None, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [List $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_ULONG, $b: *mut CK_ULONG,) [$($s,)* Items($a.cast(), 8, None, $b),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Found $a:ident, $b:ident, $c:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ULONG, $b: CK_ULONG, $c: *mut CK_ULONG,) [$($s,)* Items($a.cast(), 8, Some(system::number($b)), $c),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Fill $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_BYTE, $b: CK_ULONG,) [$($s,)* Fill($a, system::number($b)),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Put $a:ident $type:ty] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut $type,) [$($s,)* Put($a),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Mechanism $a:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, None, Default::default()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [MessageInit $a:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, Some(Parameter::MessageInit), Default::default()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [MessageMechanism $a:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_MECHANISM,) [$($s,)* Mechanism($a, Some(Parameter::Message), Default::default()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Message $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session; ($($p)* $a: *mut c_void, $b: CK_ULONG,) [$($s,)* Message($a.cast(), system::number($b), Default::default()),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Template $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ATTRIBUTE, $b: CK_ULONG,) [$($s,)* Template::new($a, system::number($b), &ATTRIBUTE),] $($rest)*);
    };
    ($name:ident $session:expr; ($($p:tt)*) [$($s:expr,)*] [Values $a:ident, $b:ident] $($rest:tt)*) => {
        export!($name $session;
            ($($p)* $a: *mut CK_ATTRIBUTE, $b: CK_ULONG,) [$($s,)* Template::new($a, system::number($b), &ATTRIBUTE_READ),] $($rest)*);
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

jeton_names::function_lists!();
