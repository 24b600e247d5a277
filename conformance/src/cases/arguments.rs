//! Errors of the caller that are possible in many functions: a call before `C_Initialize`, an
//! invalid session handle, `NULL` for every pointer, and no active operation. The suite makes each
//! error in every function in which it is possible.

use cryptoki_sys::*;
use jeton_client::{Arg, FUNCTIONS, Function, Kind, Module};

use super::{judge, judge_at, task};
use crate::fixture::{Answer, Fixture, NO_SESSION};
use crate::functions::{EARLY, harmless, of_sessions};
use crate::record::Verdict;
use crate::task::{Task, Work};

/// The functions that always return `CKR_FUNCTION_NOT_PARALLEL` (PKCS#11 3.2, "Parallel function
/// management functions").
const LEGACY: &[&str] = &["C_GetFunctionStatus", "C_CancelFunction"];

pub fn tasks() -> Vec<Task> {
    let uninitialised = FUNCTIONS.iter().filter(|function| !EARLY.contains(&function.name)).map(|function| {
        let run = move |module: &Module| {
            const EXPECTED: &[CK_RV] = &[CKR_CRYPTOKI_NOT_INITIALIZED];
            judge(allowed(function, EXPECTED, UNSUPPORTED_EARLY), harmless(module, function, 0))
        };
        task(function.name, "before C_Initialize".to_owned(), Work::Loaded(Box::new(run)))
    });
    let strange = of_sessions().map(|function| {
        let run = move |output: &Fixture<'_>| {
            const EXPECTED: &[CK_RV] = &[CKR_SESSION_HANDLE_INVALID];
            let outcome = harmless(output.module, function, NO_SESSION);
            judge_at(output, allowed(function, EXPECTED, UNSUPPORTED_STRANGE), outcome)
        };
        task(function.name, "with an invalid session handle".to_owned(), Work::LoggedIn(Box::new(run)))
    });
    let null = FUNCTIONS.iter().filter(|function| takes_pointers(function)).map(|function| {
        let run = move |output: &Fixture<'_>| with_null(output, function);
        task(function.name, "with NULL for every pointer".to_owned(), Work::LoggedIn(Box::new(run)))
    });
    let idle = of_sessions().filter(|function| continues(function)).map(|function| {
        let run = move |output: &Fixture<'_>| {
            let outcome =
                output.fresh().and_then(|session| harmless(output.module, function, session.handle()));
            judge_at(output, IDLE, outcome)
        };
        task(function.name, "without an active operation".to_owned(), Work::LoggedIn(Box::new(run)))
    });
    uninitialised.chain(strange).chain(null).chain(idle).collect()
}

const UNSUPPORTED_EARLY: &[CK_RV] =
    &[CKR_CRYPTOKI_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED, CKR_FUNCTION_NOT_PARALLEL];
const UNSUPPORTED_STRANGE: &[CK_RV] =
    &[CKR_SESSION_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED, CKR_FUNCTION_NOT_PARALLEL];

/// Returns the allowed codes: `tolerant` for optional functions, which a module may lack, and
/// `usual` for the others. Optional are those of parallel management, those in `OPTIONAL`, and
/// those that PKCS#11 2.40 does not have.
fn allowed(function: &Function, usual: &'static [CK_RV], tolerant: &'static [CK_RV]) -> &'static [CK_RV] {
    const OPTIONAL: &str = "C_GetOperationState C_SetOperationState C_DigestEncryptUpdate C_DecryptDigestUpdate \
        C_SignEncryptUpdate C_DecryptVerifyUpdate C_SignRecoverInit C_SignRecover \
        C_VerifyRecoverInit C_VerifyRecover C_WaitForSlotEvent C_LoginUser C_DigestKey";
    let newer = FUNCTIONS.iter().skip(68).any(|newer| newer.name == function.name);
    let optional = newer
        || LEGACY.contains(&function.name)
        || OPTIONAL.split_whitespace().any(|name| name == function.name);
    if optional { tolerant } else { usual }
}

/// The codes of a function without an active operation. `CKR_MECHANISM_PARAM_INVALID` is for the
/// parameter of a message, and `CKR_KEY_HANDLE_INVALID` for `C_DigestKey`.
const IDLE: &[CK_RV] = &[
    CKR_OPERATION_NOT_INITIALIZED,
    CKR_MECHANISM_PARAM_INVALID,
    CKR_KEY_HANDLE_INVALID,
    CKR_FUNCTION_NOT_SUPPORTED,
];

fn continues(function: &Function) -> bool {
    const OPERATIONS: [&str; 5] = ["Encrypt", "Decrypt", "Digest", "Sign", "Verify"];
    OPERATIONS.iter().any(|operation| function.name.contains(operation)) && !function.name.ends_with("Init")
}

/// Returns whether a function has pointers that must not be NULL. C_Initialize and C_Finalize
/// accept NULL.
fn takes_pointers(function: &Function) -> bool {
    !["C_Initialize", "C_Finalize"].contains(&function.name)
        && function.arguments().any(|kind| kind != Kind::Number)
}

fn with_null(output: &Fixture<'_>, function: &'static Function) -> Verdict {
    // A missing pointer is a bad argument. If the call has another error too, the function may
    // return the code of that error.
    const ARGUMENTS: &[CK_RV] = &[
        CKR_ARGUMENTS_BAD,
        CKR_OPERATION_NOT_INITIALIZED,
        CKR_OBJECT_HANDLE_INVALID,
        CKR_KEY_HANDLE_INVALID,
        CKR_WRAPPING_KEY_HANDLE_INVALID,
        CKR_UNWRAPPING_KEY_HANDLE_INVALID,
        CKR_SLOT_ID_INVALID,
        CKR_USER_NOT_LOGGED_IN,
        CKR_USER_ANOTHER_ALREADY_LOGGED_IN,
        CKR_USER_ALREADY_LOGGED_IN,
        CKR_SESSION_PARALLEL_NOT_SUPPORTED,
        CKR_RANDOM_SEED_NOT_SUPPORTED,
        CKR_NO_EVENT,
        CKR_STATE_UNSAVEABLE,
        CKR_SAVED_STATE_INVALID,
        CKR_SESSION_ASYNC_NOT_SUPPORTED,
        // This code is for the parameter of a message.
        CKR_MECHANISM_PARAM_INVALID,
        CKR_FUNCTION_NOT_SUPPORTED,
    ];
    // PKCS#11 3.0, C_EncryptInit and similar functions: a NULL mechanism ends the active operation.
    // Here no operation is active.
    const CANCEL: &[CK_RV] = &[
        CKR_ARGUMENTS_BAD,
        CKR_OK,
        CKR_OPERATION_NOT_INITIALIZED,
        CKR_OPERATION_CANCEL_FAILED,
        CKR_FUNCTION_NOT_SUPPORTED,
    ];
    let cancels = function.name.ends_with("Init") && function.arguments().any(|kind| kind == Kind::Mechanism);
    let outcome = null_call(output, function);
    judge_at(output, if cancels { CANCEL } else { ARGUMENTS }, outcome)
}

fn null_call(output: &Fixture<'_>, function: &'static Function) -> Answer {
    let session = output.fresh()?;
    let is_session = of_sessions().any(|one| one.name == function.name);
    let mut first = Some(match function.name {
        _ if is_session => session.handle(),
        "C_WaitForSlotEvent" => CKF_DONT_BLOCK,
        "C_InitToken" => NO_SESSION,
        _ => output.slot.0,
    });
    let mut arguments: Vec<Arg<'_>> = Vec::new();
    for kind in function.arguments() {
        arguments.push(match kind {
            Kind::Number => Arg::Number(first.take().unwrap_or(0)),
            Kind::Bytes | Kind::Fill | Kind::Handles | Kind::Template => Arg::NullBytes(8),
            Kind::Buffer | Kind::List => Arg::NoLength(None),
            Kind::Mechanism | Kind::Output | Kind::Length | Kind::Callback => Arg::Null,
        });
    }
    output.module.call(function.name, &mut arguments)
}
