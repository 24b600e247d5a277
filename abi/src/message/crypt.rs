//! The common part of "Message-based encryption functions" and "Message-based decryption
//! functions": everything except the direction.

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::error::{Error, Result};
use jeton::id::SessionHandle;
use jeton::module::{Module, Output};

use crate::call::{call_in, ending};
use crate::input::{In, Out, transform};
use crate::number::{object, session};
use crate::params::message::{Message, Nonce, Tag, message, message_mechanism};

/// The parameter of a message: pointer and length, not yet checked.
#[derive(Clone, Copy)]
pub(super) struct Parameter(pub *mut c_void, pub CK_ULONG);

/// The session and direction of a message.
#[derive(Clone, Copy)]
struct Of {
    module: &'static Module,
    session: SessionHandle,
    direction: Direction,
    /// Whether the message has begun.
    begun: bool,
}

impl Parameter {
    /// Reads the parameter, whose type depends on the operation's cipher. A wrong order of calls
    /// takes precedence over a bad parameter.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for pParameter.
    unsafe fn parse(self, of: Of, tag: Tag) -> Result<Message> {
        let scheme = of.module.crypt_message_state(of.session, of.direction, of.begun)?;
        let (nonce, tag) = match (of.direction, tag) {
            (Direction::Encrypt, tag) => (Nonce::Generated, tag),
            // "The ulIvFixedBits and ivGenerator fields are ignored."
            (Direction::Decrypt, Tag::Write) => (Nonce::Given, Tag::Read),
            (Direction::Decrypt, tag) => (Nonce::Given, tag),
        };
        // SAFETY: the caller's promise.
        unsafe { message(scheme, self.0, self.1, nonce, tag) }
    }
}

/// # Safety
///
/// The contract of PKCS#11.
pub(super) unsafe fn init(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    given: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pMechanism.
        match unsafe { message_mechanism(given) }? {
            Some(mechanism) => module.message_crypt_init(session(handle), direction, &mechanism, object(key)),
            None => module.message_crypt_cancel(session(handle), direction),
        }
    })
}

/// # Safety
///
/// The contract of PKCS#11.
pub(super) unsafe fn whole(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    aad: In,
    data: In,
    out: Out,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pParameter, pAssociatedData, and the two texts with
        // their lengths; `work` is given the only slices of that memory that are in use.
        unsafe {
            let of = Of { module, session, direction, begun: false };
            let mut message = parameter.parse(of, Tag::Write)?;
            let aad = aad.bytes()?;
            let work = |data: &[u8], out: Output<'_>| {
                module.crypt_message(session, direction, &mut message.params, aad, data, out)
            };
            transform(data, out, work)?;
            write_back(direction, &message, out);
        }
        Ok(())
    })
}

/// # Safety
///
/// The contract of PKCS#11.
pub(super) unsafe fn begin(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    aad: In,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the contract of PKCS#11 for pParameter and pAssociatedData.
        unsafe {
            let of = Of { module, session, direction, begun: false };
            let mut message = parameter.parse(of, Tag::Later)?;
            module.crypt_message_begin(session, direction, &mut message.params, aad.bytes()?)?;
            if direction == Direction::Encrypt {
                message.write_nonce();
            }
        }
        Ok(())
    })
}

/// Only the last part reads the parameter, for the tag. The nonce is that of the beginning.
///
/// # Safety
///
/// The contract of PKCS#11.
pub(super) unsafe fn next(
    direction: Direction,
    handle: CK_SESSION_HANDLE,
    parameter: Parameter,
    part: In,
    out: Out,
    flags: CK_FLAGS,
) -> CK_RV {
    call_in(handle, |module| {
        let session = session(handle);
        // SAFETY: the caller's promise.
        let outcome = unsafe {
            match flags {
                0 => {
                    transform(part, out, |part, out| module.crypt_message_part(session, direction, part, out))
                }
                CKF_END_OF_MESSAGE => {
                    end(Of { module, session, direction, begun: true }, parameter, part, out)
                }
                _ => Err(Error::ArgumentsBad),
            }
        };
        ending(outcome, || module.crypt_message_cancel(session, direction))
    })
}

/// # Safety
///
/// The contract of PKCS#11.
unsafe fn end(of: Of, parameter: Parameter, part: In, out: Out) -> Result<()> {
    let Of { module, session, direction, .. } = of;
    // SAFETY: the contract of PKCS#11 for pParameter and the two texts with their lengths; `work`
    // is given the only slices of that memory that are in use.
    unsafe {
        let mut message = parameter.parse(of, Tag::Write)?;
        let work = |part: &[u8], out: Output<'_>| {
            module.crypt_message_end(session, direction, &mut message.params, part, out)
        };
        transform(part, out, work)?;
        if direction == Direction::Encrypt && !out.0.is_null() {
            message.write_tag();
        }
    }
    Ok(())
}

/// # Safety
///
/// The contract of PKCS#11 for pParameter, no slice of which is in use.
unsafe fn write_back(direction: Direction, message: &Message, out: Out) {
    // A call that asks for the length changes nothing.
    if direction == Direction::Encrypt && !out.0.is_null() {
        // SAFETY: the caller's promise; the tag was asked for to be written.
        unsafe {
            message.write_nonce();
            message.write_tag();
        }
    }
}

pub(super) fn finish(direction: Direction, handle: CK_SESSION_HANDLE) -> CK_RV {
    call_in(handle, |module| module.message_crypt_final(session(handle), direction))
}
