//! The common part of the functions that start, continue and end an operation of a session.
//!
//! The parameter `operation` selects the operation in the session. If a call that continues the
//! operation has a refused argument, the call ends the operation.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::error::Result;
use jeton::id::ObjectHandle;
use jeton::mechanism::Mechanism;
use jeton::module::{Module, Output};
use jeton::session::{Crypting, Engine, Operation, Session};

use crate::call::{call_in, cancel_refused};
use crate::input::{self, In, Out};
use crate::number::{object, session};
use crate::params::{Given, mechanism};

/// Starts an operation with a key, like `C_SignInit`. `NULL` for the mechanism ends the operation.
///
/// # Safety
///
/// The contract of PKCS#11 for `given`.
pub(crate) unsafe fn init<E: Engine>(
    function: &'static str,
    (handle, given, key): (CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE),
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    init: impl FnOnce(&mut Session, &Mechanism, ObjectHandle) -> Result<()>,
) -> CK_RV {
    call_in(handle, |module| {
        if given.is_null() {
            return cancel(module, handle, operation);
        }
        // SAFETY: the caller's promise.
        let mechanism = unsafe { mechanism(given) }?;
        let key = object(key);
        module.start(session(handle), function, mechanism.info, key, |session| init(session, &mechanism, key))
    })
}

/// Starts an encryption or a decryption, like [`init`]. The parameter of GCM is not copied here.
///
/// # Safety
///
/// The contract of PKCS#11 for `given`.
pub(crate) unsafe fn init_crypting(
    direction: Direction,
    (handle, given, key): (CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE),
    operation: impl Fn(&mut Session) -> &mut Operation<Crypting>,
) -> CK_RV {
    let function = match direction {
        Direction::Encrypt => "C_EncryptInit",
        Direction::Decrypt => "C_DecryptInit",
    };
    call_in(handle, |module| {
        if given.is_null() {
            return cancel(module, handle, operation);
        }
        // SAFETY: the caller's promise.
        let given = unsafe { Given::read(given) }?;
        let (session, info, key) = (session(handle), given.info, object(key));
        // SAFETY: the caller's promise.
        if let Some(gcm) = unsafe { given.gcm() }? {
            return module
                .start(session, function, info, key, |session| session.gcm_init(direction, info, &gcm, key));
        }
        // SAFETY: the caller's promise.
        let mechanism = unsafe { given.parse() }?;
        module.start(session, function, info, key, |session| session.crypt_init(direction, &mechanism, key))
    })
}

/// Runs a function with an input and an output, like `C_Sign`.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
pub(crate) unsafe fn transform<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    input: In,
    output: Out,
    work: impl FnOnce(&mut Operation<E>, &[u8], Output<'_>) -> Result<usize>,
) -> CK_RV {
    let work = |session: &mut Session, data: &[u8], out: Output<'_>| work(operation(session), data, out);
    // SAFETY: the caller's promise.
    unsafe { transform_in(handle, &operation, input, output, work) }
}

/// Like [`transform`], but passes the whole session to `work`, because functions such as
/// `C_DigestEncryptUpdate` use two operations.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
pub(crate) unsafe fn transform_in<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    input: In,
    output: Out,
    work: impl FnOnce(&mut Session, &[u8], Output<'_>) -> Result<usize>,
) -> CK_RV {
    run(handle, operation, |module| {
        let work = |data: &[u8], out: Output<'_>| {
            module.with_session(session(handle), |session| work(session, data, out))
        };
        // SAFETY: the caller's promise.
        unsafe { input::transform(input, output, work) }
    })
}

/// Encrypts or decrypts a part, like `C_EncryptUpdate`.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
pub(crate) unsafe fn update(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<Crypting>,
    input: In,
    output: Out,
) -> CK_RV {
    let work =
        |session: &mut Session, data: &[u8], out: Output<'_>| session.crypt_update(direction, data, out);
    // SAFETY: the caller's promise.
    unsafe { transform_in(handle, operation, input, output, work) }
}

/// Runs a function with an output and no input, like `C_SignFinal`.
///
/// # Safety
///
/// The contract of PKCS#11 for the output.
pub(crate) unsafe fn produce<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    output: Out,
    work: impl FnOnce(&mut Operation<E>, Output<'_>) -> Result<usize>,
) -> CK_RV {
    run(handle, &operation, |module| {
        let work =
            |out: Output<'_>| module.with_session(session(handle), |session| work(operation(session), out));
        // SAFETY: the caller's promise.
        unsafe { input::produce(output, work) }
    })
}

/// Runs a function with an input and no output, like `C_SignUpdate`.
///
/// # Safety
///
/// The contract of PKCS#11 for the input.
pub(crate) unsafe fn consume<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    input: In,
    work: impl FnOnce(&mut Operation<E>, &[u8]) -> Result<()>,
) -> CK_RV {
    run(handle, &operation, |module| {
        // SAFETY: the caller's promise.
        let data = unsafe { input.bytes() }?;
        module.with_session(session(handle), |session| work(operation(session), data))
    })
}

/// Runs a function with two inputs and no output, like `C_Verify`.
///
/// # Safety
///
/// The contract of PKCS#11 for both inputs.
pub(crate) unsafe fn consume_both<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    (data, signature): (In, In),
    work: impl FnOnce(&mut Operation<E>, &[u8], &[u8]) -> Result<()>,
) -> CK_RV {
    run(handle, &operation, |module| {
        // SAFETY: the caller's promise.
        let (data, signature) = unsafe { (data.bytes()?, signature.bytes()?) };
        module.with_session(session(handle), |session| work(operation(session), data, signature))
    })
}

/// Runs `work`. Ends the operation if `work` refuses an argument.
pub(crate) fn run<E: Engine>(
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
    work: impl FnOnce(&'static Module) -> Result<()>,
) -> CK_RV {
    call_in(handle, |module| cancel_refused(work(module), || cancel(module, handle, operation)))
}

/// Ends the operation. Succeeds if no operation is active.
pub(crate) fn cancel<E: Engine>(
    module: &Module,
    handle: CK_SESSION_HANDLE,
    operation: impl Fn(&mut Session) -> &mut Operation<E>,
) -> Result<()> {
    module.with_session(session(handle), |session| {
        operation(session).cancel();
        Ok(())
    })
}
