//! "Message-based encryption functions" and "Message-based decryption functions".

use std::ffi::c_void;

use cryptoki_sys::{
    CK_BYTE, CK_FLAGS, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKF_END_OF_MESSAGE,
};
use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::functions::Output;
use jeton::session::{Messages, Operation, Owner, Phase, Session};

use crate::call::call_session;
use crate::input::{In, Out, transform};
use crate::operation::cancel_refused;
use crate::params::message::{Message, Nonce, Tag, message_mechanism, read_message};

/// Defines the functions of one direction.
macro_rules! functions {
    (
        $direction:ident,
        $operation:ident:
        $init:ident,
        $message:ident,
        $begin:ident,
        $next:ident,
        $final:ident
    ) => {
        init_and_final!($init, $final, $operation, message_mechanism, |session, mechanism, key| {
            session.message_crypt_init(Direction::$direction, mechanism, key)
        });

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
            call_session(handle, |session| unsafe {
                whole(session, Direction::$direction, stringify!($message), parameter, aad, data, out)
            })
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
            call_session(handle, |session| unsafe {
                begin(session, Direction::$direction, stringify!($begin), parameter, aad)
            })
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
            call_session(handle, |session| unsafe {
                next(session, Direction::$direction, parameter, part, out, flags)
            })
        }
    };
}

functions! {
    Encrypt, message_encrypt:
    C_MessageEncryptInit, C_EncryptMessage, C_EncryptMessageBegin, C_EncryptMessageNext, C_MessageEncryptFinal
}

functions! {
    Decrypt, message_decrypt:
    C_MessageDecryptInit, C_DecryptMessage, C_DecryptMessageBegin, C_DecryptMessageNext, C_MessageDecryptFinal
}

/// The parameter of a message: pointer and length, not yet checked.
#[derive(Clone, Copy)]
struct Parameter(*mut c_void, CK_ULONG);

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
        operation.message_engine(phase)?;
        let (nonce, tag) = match (direction, tag) {
            (Direction::Encrypt, tag) => (Nonce::Generated, tag),
            // "The ulIvFixedBits and ivGenerator fields are ignored."
            (Direction::Decrypt, Tag::Write) => (Nonce::Given, Tag::Read),
            (Direction::Decrypt, tag) => (Nonce::Given, tag),
        };
        // SAFETY: the caller's promise.
        unsafe { read_message(message, (self.0, self.1), nonce, tag) }
    }
}

/// Processes a message in a single part.
///
/// # Safety
///
/// The contract of PKCS#11 for pParameter, pAssociatedData, and plaintext and ciphertext with their
/// lengths.
unsafe fn whole(
    session: &mut Session,
    direction: Direction,
    function: &'static str,
    parameter: Parameter,
    aad: In,
    data: In,
    out: Out,
) -> Result<()> {
    let (owner, operations) = session.split();
    // SAFETY: the caller's promise. No other slice of that memory is in use while `work` runs.
    owner.message(out.logged(function), operations.messages(direction), |operation| unsafe {
        let mut message = Message::empty();
        parameter.parse(&mut message, operation, direction, Phase::Begin, Tag::Write)?;
        let aad = aad.bytes()?;
        let work =
            |data: &[u8], out: Output<'_>| operation.crypt_message(&mut message.params, aad, data, out);
        transform(data, out, work)?;
        // A call that asks for the length changes nothing.
        if direction == Direction::Encrypt && !out.0.is_null() {
            message.write_nonce();
            message.write_tag();
        }
        Ok(())
    })
}

/// Begins a message in several parts.
///
/// # Safety
///
/// The contract of PKCS#11 for pParameter and pAssociatedData.
unsafe fn begin(
    session: &mut Session,
    direction: Direction,
    function: &'static str,
    parameter: Parameter,
    aad: In,
) -> Result<()> {
    let (owner, operations) = session.split();
    // SAFETY: the caller's promise. No slice of the parameter is in use when the nonce is written.
    owner.message(Some(function), operations.messages(direction), |operation| unsafe {
        let mut message = Message::empty();
        parameter.parse(&mut message, operation, direction, Phase::Begin, Tag::Later)?;
        let aad = aad.bytes()?;
        operation.crypt_message_begin(&mut message.params, aad)?;
        if direction == Direction::Encrypt {
            message.write_nonce();
        }
        Ok(())
    })
}

/// Processes a part of a message. Reads the parameter only with the last part, for the tag: the
/// nonce was read when the message began.
///
/// # Safety
///
/// The contract of PKCS#11 for pParameter, and for plaintext and ciphertext with their lengths.
unsafe fn next(
    session: &mut Session,
    direction: Direction,
    parameter: Parameter,
    part: In,
    out: Out,
    flags: CK_FLAGS,
) -> Result<()> {
    let (owner, operations) = session.split();
    let operation = operations.messages(direction);
    // SAFETY: the caller's promise.
    let outcome = unsafe {
        match flags {
            0 => transform(part, out, |part, out| {
                owner.message(None, operation, |operation| operation.crypt_message_part(part, out))
            }),
            CKF_END_OF_MESSAGE => end(owner, operation, direction, parameter, part, out),
            _ => Err(Error::ArgumentsBad),
        }
    };
    cancel_refused(outcome, || operation.message_cancel())
}

/// Processes the last part of a message.
///
/// # Safety
///
/// As for [`next`].
unsafe fn end(
    owner: Owner<'_>,
    operation: &mut Operation<Messages>,
    direction: Direction,
    parameter: Parameter,
    part: In,
    out: Out,
) -> Result<()> {
    // SAFETY: the caller's promise. No other slice of that memory is in use while `work` runs.
    owner.message(None, operation, |operation| unsafe {
        let mut message = Message::empty();
        parameter.parse(&mut message, operation, direction, Phase::Continue, Tag::Write)?;
        let work = |part: &[u8], out: Output<'_>| operation.crypt_message_end(&mut message.params, part, out);
        transform(part, out, work)?;
        // A call that asks for the length changes nothing.
        if direction == Direction::Encrypt && !out.0.is_null() {
            message.write_tag();
        }
        Ok(())
    })
}
