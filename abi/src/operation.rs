//! The common part of the functions that start, continue and end an operation of a session.
//!
//! These functions read the arguments while the session is locked. If an argument is refused, they
//! end the operation.

use cryptoki_sys::{CK_MECHANISM, CK_OBJECT_HANDLE};
use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::functions::Output;
use jeton::session::{Engine, Operation, Session, Signing};
use jeton_words::operation::{CryptMechanism, CryptParams, Signed};

use crate::call::start_of;
use crate::input::{self, In, Out};
use crate::number::object;
use crate::otp;
use crate::params::Given;

/// Starts an encryption or a decryption, like `C_EncryptInit`. The parameter of GCM is not copied.
///
/// # Safety
///
/// The contract of PKCS#11 for `given`.
#[inline(always)]
pub(crate) unsafe fn init_crypting(
    session: &mut Session,
    direction: Direction,
    given: *const CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> Result<()> {
    if given.is_null() {
        return cancel(session.operations.crypt(direction));
    }
    // SAFETY: the caller's promise.
    let given = unsafe { Given::read(given) }?;
    let parsed;
    // SAFETY: the caller's promise.
    let params = match unsafe { given.gcm() }? {
        Some(gcm) => CryptParams::Gcm(gcm),
        None => {
            // SAFETY: the caller's promise.
            parsed = unsafe { given.parse() }?;
            CryptParams::Parsed(&parsed)
        }
    };
    let function = match direction {
        Direction::Encrypt => "C_EncryptInit",
        Direction::Decrypt => "C_DecryptInit",
    };
    session.start_crypt(function, direction, CryptMechanism { info: given.info, params }, object(key))
}

/// Defines the `Init` function of an operation with a key. The other arguments are the operation,
/// the function that reads the mechanism, and the function of the core that starts the operation.
macro_rules! init {
    ($init:ident, $operation:ident, $mechanism:path, $start:expr) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $init(
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            $crate::call::call_session(handle, |session| {
                if given.is_null() {
                    return $crate::operation::cancel(&mut session.operations.$operation);
                }
                // SAFETY: the contract of PKCS#11 for pMechanism.
                let mechanism = unsafe { $mechanism(given) }?;
                session.start(stringify!($init), &mechanism, $crate::number::object(key), $start)
            })
        }
    };
}
pub(crate) use init;

/// Defines a function that continues or ends an operation. The first word is the function of this
/// file that has its shape; the last argument is the function of the core.
macro_rules! function {
    (transform $name:ident, $operation:ident, $work:expr) => {
        $crate::operation::function!(@both $name, |session, input, output| {
            $crate::operation::transform(&mut session.operations.$operation, input, output, $work)
        });
    };
    (sign $name:ident, $work:expr) => {
        $crate::operation::function!(@both $name, |session, input, output| {
            $crate::operation::sign(session, input, output, $work)
        });
    };
    (update $name:ident, $direction:expr, $work:expr) => {
        $crate::operation::function!(@both $name, |session, input, output| {
            $crate::operation::update(session, $direction, input, output, $work)
        });
    };
    (@both $name:ident, |$session:ident, $input:ident, $output:ident| $call:expr) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let ($input, $output) =
                ($crate::input::In(input, input_len), $crate::input::Out(output, output_len));
            // SAFETY: the contract of PKCS#11 for the two buffers with their lengths.
            $crate::call::call_session(handle, |$session| unsafe { $call })
        }
    };
    (produce $name:ident, $operation:ident, $work:expr) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            handle: CK_SESSION_HANDLE,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let output = $crate::input::Out(output, output_len);
            // SAFETY: the contract of PKCS#11 for the buffer and its length.
            $crate::call::call_session(handle, |session| unsafe {
                $crate::operation::produce(&mut session.operations.$operation, output, $work)
            })
        }
    };
    (consume $name:ident, $operation:ident, $work:expr) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
        ) -> CK_RV {
            let input = $crate::input::In(input, input_len);
            // SAFETY: the contract of PKCS#11 for the input.
            $crate::call::call_session(handle, |session| unsafe {
                $crate::operation::consume(&mut session.operations.$operation, input, $work)
            })
        }
    };
}
pub(crate) use function;

/// Ends the operation, as an `Init` function with `NULL` for the mechanism does. Succeeds if no
/// operation is active.
pub(crate) fn cancel<E: Engine>(operation: &mut Operation<E>) -> Result<()> {
    operation.clear();
    Ok(())
}

/// Runs a function with an input and an output, like `C_Sign`.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
#[inline]
pub(crate) unsafe fn transform<E: Engine>(
    operation: &mut Operation<E>,
    input: In,
    output: Out,
    work: impl FnOnce(&mut Operation<E>, &[u8], Output<'_>) -> Result<usize>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { input::transform(input, output, |data, out| work(operation, data, out)) };
    cancel_refused(outcome, || operation.cancel())
}

/// Runs a function that signs.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
#[inline]
pub(crate) unsafe fn sign(
    session: &mut Session,
    input: In,
    output: Out,
    work: impl FnOnce(&mut Operation<Signing>, &[u8], Output<'_>) -> Result<Signed>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        transform(&mut session.operations.sign, input, output, |operation, data, out| {
            work(operation, data, out).map(|signed| otp::written(signed, output.0, start_of(output.0)))
        })
    }
}

/// Encrypts or decrypts a part, like `C_EncryptUpdate`. `work` gets the session, because functions
/// such as `C_DigestEncryptUpdate` use two operations.
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
pub(crate) unsafe fn update(
    session: &mut Session,
    direction: Direction,
    input: In,
    output: Out,
    work: impl FnOnce(&mut Session, &[u8], Output<'_>) -> Result<usize>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { input::transform(input, output, |data, out| work(session, data, out)) };
    cancel_refused(outcome, || session.operations.crypt(direction).cancel())
}

/// Runs a function with an output and no input, like `C_SignFinal`.
///
/// # Safety
///
/// The contract of PKCS#11 for the output.
pub(crate) unsafe fn produce<E: Engine>(
    operation: &mut Operation<E>,
    output: Out,
    work: impl FnOnce(&mut Operation<E>, Output<'_>) -> Result<usize>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { input::produce(output, |out| work(operation, out)) };
    cancel_refused(outcome, || operation.cancel())
}

/// Runs a function with an input and no output, like `C_SignUpdate`.
///
/// # Safety
///
/// The contract of PKCS#11 for the input.
pub(crate) unsafe fn consume<E: Engine>(
    operation: &mut Operation<E>,
    input: In,
    work: impl FnOnce(&mut Operation<E>, &[u8]) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let outcome = unsafe { input.bytes() }.and_then(|data| work(operation, data));
    cancel_refused(outcome, || operation.cancel())
}

/// Runs a function with two inputs and no output, like `C_Verify`.
///
/// # Safety
///
/// The contract of PKCS#11 for both inputs.
pub(crate) unsafe fn consume_both<E: Engine>(
    operation: &mut Operation<E>,
    (data, signature): (In, In),
    work: impl FnOnce(&mut Operation<E>, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let inputs = unsafe { data.bytes().and_then(|data| Ok((data, signature.bytes()?))) };
    let outcome = inputs.and_then(|(data, signature)| work(operation, data, signature));
    cancel_refused(outcome, || operation.cancel())
}

/// Ends the operation, or its message, if the call was refused because of its arguments or its
/// parameter, or if there was no memory for a copy of its input. Such a call did not reach the
/// operation, so the operation did not end by itself.
///
/// PKCS#11 3.2, C_Sign and similar functions: the call "always terminates the active … operation
/// unless it returns CKR_BUFFER_TOO_SMALL or is a successful call"; the Update functions have the
/// same rule for errors.
pub(crate) fn cancel_refused(outcome: Result<()>, cancel: impl FnOnce()) -> Result<()> {
    // The parameter of a message (C_EncryptMessageNext and similar) is an argument too.
    if matches!(outcome, Err(Error::ArgumentsBad | Error::MechanismParamInvalid | Error::HostMemory)) {
        cancel();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_refused_arguments_ends_the_operation() {
        let cancels = |outcome: Result<()>| {
            let mut cancelled = false;
            assert_eq!(cancel_refused(outcome, || cancelled = true), outcome);
            cancelled
        };
        assert!(cancels(Err(Error::ArgumentsBad)));
        assert!(cancels(Err(Error::MechanismParamInvalid)));
        assert!(cancels(Err(Error::HostMemory)));
        assert!(!cancels(Err(Error::BufferTooSmall { needed: 1 })));
        assert!(!cancels(Err(Error::OperationActive)));
        assert!(!cancels(Ok(())));
    }
}
