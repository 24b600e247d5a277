//! "Message-based encryption functions" and "Message-based decryption functions".

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::id::SessionHandle;
use jeton::module::{Module, Output};
use jeton::session::{Messages, Operation, Phase, Session};

use super::end_message;
use crate::call::{call_in, cancel_refused};
use crate::input::{In, Out, transform};
use crate::number::{object, session};
use crate::operation::cancel;
use crate::params::message::{Message, Nonce, Tag, message_mechanism, read_message};

/// Defines the functions of one direction.
macro_rules! functions {
    (
        $direction:ident: $init:ident,
        $message:ident,
        $begin:ident,
        $next:ident,
        $final:ident
    ) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $init(
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            // SAFETY: the contract of PKCS#11.
            unsafe { init(Direction::$direction, stringify!($init), handle, given, key) }
        }

        /// # Safety
        ///
        /// None: no pointer is passed.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $final(handle: CK_SESSION_HANDLE) -> CK_RV {
            finish(Direction::$direction, handle)
        }

        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the specification's")]
        pub(crate) unsafe extern "C" fn $message(
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            aad: *mut CK_BYTE,
            aad_len: CK_ULONG,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let parameter = Parameter(parameter, parameter_len);
            let (aad, data, out) = (In(aad, aad_len), In(input, input_len), Out(output, output_len));
            // SAFETY: the contract of PKCS#11.
            unsafe { whole(Direction::$direction, stringify!($message), handle, parameter, aad, data, out) }
        }

        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $begin(
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            aad: *mut CK_BYTE,
            aad_len: CK_ULONG,
        ) -> CK_RV {
            let (parameter, aad) = (Parameter(parameter, parameter_len), In(aad, aad_len));
            // SAFETY: the contract of PKCS#11.
            unsafe { begin(Direction::$direction, stringify!($begin), handle, parameter, aad) }
        }

        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the specification's")]
        pub(crate) unsafe extern "C" fn $next(
            handle: CK_SESSION_HANDLE,
            parameter: *mut c_void,
            parameter_len: CK_ULONG,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
            flags: CK_FLAGS,
        ) -> CK_RV {
            let parameter = Parameter(parameter, parameter_len);
            let (part, out) = (In(input, input_len), Out(output, output_len));
            // SAFETY: the contract of PKCS#11.
            unsafe { next(Direction::$direction, handle, parameter, part, out, flags) }
        }
    };
}

functions!(
    Encrypt:
    C_MessageEncryptInit,
    C_EncryptMessage,
    C_EncryptMessageBegin,
    C_EncryptMessageNext,
    C_MessageEncryptFinal
);

functions!(
    Decrypt:
    C_MessageDecryptInit,
    C_DecryptMessage,
    C_DecryptMessageBegin,
    C_DecryptMessageNext,
    C_MessageDecryptFinal
);

/// The parameter of a message: pointer and length, not yet checked.
#[derive(Clone, Copy)]
struct Parameter(*mut c_void, CK_ULONG);

/// The session and direction of a message.
#[derive(Clone, Copy)]
struct Of {
    module: &'static Module,
    session: SessionHandle,
    direction: Direction,
}

impl Of {
    /// Calls `work` with the operation. `function` is the name of the call for the audit log.
    fn with<T>(
        self,
        function: Option<&'static str>,
        work: impl FnOnce(&mut Operation<Messages>) -> Result<T>,
    ) -> Result<T> {
        self.module.message(self.session, function, |session| session.messages(self.direction), work)
    }
}

impl Parameter {
    /// Reads the parameter into `message`. Its type depends on the operation's cipher. A wrong
    /// order of calls takes precedence over a bad parameter.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for pParameter.
    #[inline]
    unsafe fn parse(
        self,
        message: &mut Message,
        operation: &mut Operation<Messages>,
        direction: Direction,
        phase: Phase,
        tag: Tag,
    ) -> Result<()> {
        let scheme = operation.message_scheme(phase)?;
        let (nonce, tag) = match (direction, tag) {
            (Direction::Encrypt, tag) => (Nonce::Generated, tag),
            // "The ulIvFixedBits and ivGenerator fields are ignored."
            (Direction::Decrypt, Tag::Write) => (Nonce::Given, Tag::Read),
            (Direction::Decrypt, tag) => (Nonce::Given, tag),
        };
        // SAFETY: the caller's promise.
        unsafe { read_message(message, scheme, (self.0, self.1), nonce, tag) }
    }
}

unsafe fn init(
    direction: Direction,
    function: &'static str,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        if given.is_null() {
            return cancel(module, handle, |session| session.messages(direction));
        }
        // SAFETY: the contract of PKCS#11 for pMechanism.
        let mechanism = unsafe { message_mechanism(given) }?;
        let key = object(key);
        let init = |session: &mut Session| session.message_crypt_init(direction, &mechanism, key);
        module.start(session(handle), function, mechanism.info, key, init)
    })
}

unsafe fn whole(
    direction: Direction,
    function: &'static str,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    aad: In,
    data: In,
    out: Out,
) -> CK_RV {
    call_in(handle, |module| {
        let of = Of { module, session: session(handle), direction };
        // SAFETY: the contract of PKCS#11 for pParameter, pAssociatedData, and plaintext and
        // ciphertext with their lengths. No other slice of that memory is in use while `work` runs.
        of.with(out.logged(function), |operation| unsafe {
            let mut message = Message::empty();
            parameter.parse(&mut message, operation, direction, Phase::Begin, Tag::Write)?;
            let aad = aad.bytes()?;
            let work =
                |data: &[u8], out: Output<'_>| operation.crypt_message(&mut message.params, aad, data, out);
            transform(data, out, work)?;
            write_back(direction, &message, out);
            Ok(())
        })
    })
}

unsafe fn begin(
    direction: Direction,
    function: &'static str,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    aad: In,
) -> CK_RV {
    call_in(handle, |module| {
        let of = Of { module, session: session(handle), direction };
        // SAFETY: the contract of PKCS#11 for pParameter and pAssociatedData.
        of.with(Some(function), |operation| unsafe {
            let mut message = Message::empty();
            parameter.parse(&mut message, operation, direction, Phase::Begin, Tag::Later)?;
            let aad = aad.bytes()?;
            operation.crypt_message_begin(&mut message.params, aad)?;
            if direction == Direction::Encrypt {
                message.write_nonce();
            }
            Ok(())
        })
    })
}

/// Processes a part of a message. Reads the parameter only with the last part, for the tag: the
/// nonce was read when the message began.
unsafe fn next(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    part: In,
    out: Out,
    flags: CK_FLAGS,
) -> CK_RV {
    call_in(handle, |module| {
        let of = Of { module, session: session(handle), direction };
        // SAFETY: the caller's promise.
        let outcome = unsafe {
            match flags {
                0 => transform(part, out, |part, out| {
                    of.with(None, |operation| operation.crypt_message_part(part, out))
                }),
                CKF_END_OF_MESSAGE => end(of, parameter, part, out),
                _ => Err(Error::ArgumentsBad),
            }
        };
        cancel_refused(outcome, || end_message(module, of.session, |session| session.messages(direction)))
    })
}

unsafe fn end(of: Of, parameter: Parameter, part: In, out: Out) -> Result<()> {
    // SAFETY: the contract of PKCS#11 for pParameter, and for plaintext and ciphertext with their
    // lengths. No other slice of that memory is in use while `work` runs.
    of.with(None, |operation| unsafe {
        let mut message = Message::empty();
        parameter.parse(&mut message, operation, of.direction, Phase::Continue, Tag::Write)?;
        let work = |part: &[u8], out: Output<'_>| operation.crypt_message_end(&mut message.params, part, out);
        transform(part, out, work)?;
        if of.direction == Direction::Encrypt && !out.0.is_null() {
            message.write_tag();
        }
        Ok(())
    })
}

/// # Safety
///
/// The contract of PKCS#11 for pParameter. No slice of it is in use.
unsafe fn write_back(direction: Direction, message: &Message, out: Out) {
    // A call that asks for the length changes nothing.
    if direction == Direction::Encrypt && !out.0.is_null() {
        // SAFETY: the caller's promise. `Tag::Write` made `parse` check the pointer of the tag.
        unsafe {
            message.write_nonce();
            message.write_tag();
        }
    }
}

fn finish(direction: Direction, handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| {
        module.with_session(session(handle), |session| session.messages(direction).message_final())
    })
}
