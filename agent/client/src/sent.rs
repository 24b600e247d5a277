//! The arguments of a call in the client: how each kind is read, and how what the function wrote is
//! taken back.
//!
//! All pointers here are the application's, valid by the contract of PKCS#11. What the agent says
//! is not trusted: it chooses no pointer, and writes no more than the application's lengths allow.

use std::ptr::slice_from_raw_parts;

use cryptoki_sys::*;
use jeton_agent_wire::argument::{Argument, Content, Input};
use jeton_agent_wire::image::Outputs;
use jeton_agent_wire::layout::{Layout, MAX_ATTRIBUTES, Parameter};
use jeton_agent_wire::{MAX_SHORT, Malformed, Unfit, mechanism};
use serde_bytes::Bytes;

use crate::capture::{capture, restore};

/// An argument in the client.
pub trait Sent {
    /// Reads the argument.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for the argument, until the call ends.
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit>;

    /// Returns the address of the output buffer, if this is one.
    fn buffer(&self) -> Option<*const u8> {
        None
    }

    /// Takes back what the function wrote. `sent` is the argument that was read.
    ///
    /// # Safety
    ///
    /// As for [`argument`](Self::argument).
    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let _ = (sent, code, outputs);
        Ok(())
    }
}

/// Returns the bytes at a pointer.
///
/// # Safety
///
/// Readable, unless the pointer is `NULL` or the length impossible.
unsafe fn input<'a>(pointer: *const u8, len: u64) -> Input<'a> {
    if pointer.is_null() {
        return Input::Absent(len);
    }
    if isize::try_from(len).is_err() {
        return Input::Impossible(len);
    }
    // SAFETY: the caller's promise.
    Input::Data(Bytes::new(unsafe { &*slice_from_raw_parts(pointer, len as usize) }))
}

/// A number.
pub struct Number(pub u64);

impl Sent for Number {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        Ok(Argument::Number(self.0))
    }
}

/// A pointer that is not followed.
pub struct Void(pub *const ());

impl Sent for Void {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        Ok(Argument::Pointer(!self.0.is_null()))
    }
}

/// Bytes.
pub struct In(pub *const u8, pub u64);

impl Sent for In {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        Ok(Argument::Input(unsafe { input(self.0, self.1) }))
    }
}

/// Bytes of which a function refuses more than [`MAX_SHORT`] by their length. So the memory of an
/// application that passes a wrong length is not read.
pub struct Short(pub *const u8, pub u64);

impl Sent for Short {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        if !self.0.is_null() && self.1 > MAX_SHORT as u64 {
            return Ok(Argument::Input(Input::Impossible(self.1)));
        }
        // SAFETY: the caller's promise.
        Ok(Argument::Input(unsafe { input(self.0, self.1) }))
    }
}

/// Bytes up to the first NUL, of which a function reads at most 32.
pub struct Name(pub *const u8);

impl Sent for Name {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        if self.0.is_null() {
            return Ok(Argument::Input(Input::Absent(0)));
        }
        // SAFETY: readable up to the first NUL by the caller's promise.
        let len = (0..32).find(|index| unsafe { *self.0.add(*index) } == 0).map_or(32, |nul| nul + 1);
        // SAFETY: as above.
        Ok(Argument::Input(unsafe { input(self.0, len as u64) }))
    }
}

/// A buffer in the two-call convention.
pub struct Out(pub *mut u8, pub *mut CK_ULONG);

impl Sent for Out {
    fn buffer(&self) -> Option<*const u8> {
        Some(self.0)
    }

    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        Ok(Argument::Output(!self.0.is_null(), unsafe { read_room(self.1) }))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        // SAFETY: the caller's promise.
        unsafe { take_items(self.0, self.1, 1, sent, code, outputs) }
    }
}

/// A list of numbers in the two-call convention.
pub struct List(pub *mut CK_ULONG, pub *mut CK_ULONG);

impl Sent for List {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        Ok(Argument::Output(!self.0.is_null(), unsafe { read_room(self.1) }))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        // SAFETY: the caller's promise; the list has 8 bytes for each number.
        unsafe { take_items(self.0.cast(), self.1, 8, sent, code, outputs) }
    }
}

/// The results of `C_FindObjects`: the handles, the room, and their number.
pub struct Found(pub *mut CK_ULONG, pub u64, pub *mut CK_ULONG);

impl Sent for Found {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // `NULL` for the number is `None`, and every room is a number.
        Ok(Argument::Output(!self.0.is_null(), (!self.2.is_null()).then_some(self.1)))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        // SAFETY: the caller's promise; the array has 8 bytes for each handle.
        unsafe { take_items(self.0.cast(), self.2, 8, sent, code, outputs) }
    }
}

/// Returns the number at a pointer; `None` for `NULL`.
///
/// # Safety
///
/// `NULL` or readable.
unsafe fn read_room(len: *const CK_ULONG) -> Option<u64> {
    // SAFETY: not null; readable by the caller's promise.
    (!len.is_null()).then(|| unsafe { len.read_unaligned() })
}

/// Takes the number of items, and the items of this number of bytes if the application passed a
/// buffer.
///
/// # Safety
///
/// As for [`Sent::receive`]: the buffer has the room that was sent.
unsafe fn take_items(
    buffer: *mut u8,
    len: *mut CK_ULONG,
    item: u64,
    sent: &Argument<'_>,
    code: CK_RV,
    outputs: &mut Outputs<'_, '_>,
) -> Result<(), Malformed> {
    let Argument::Output(_, Some(room)) = sent else { return Ok(()) };
    let count = outputs.next(8)?.try_into().map(u64::from_ne_bytes).map_err(|_| Malformed)?;
    let bytes = outputs.at_most(room.saturating_mul(item))?;
    // The application reads as many items as the number says.
    if code == CKR_OK && !buffer.is_null() && count.checked_mul(item) != Some(bytes.len() as u64) {
        return Err(Malformed);
    }
    // SAFETY: not null; writable by the caller's promise.
    unsafe { len.write_unaligned(count) };
    if !bytes.is_empty() && !buffer.is_null() {
        // SAFETY: the buffer has this room by the caller's promise.
        unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

/// A buffer that a function fills.
pub struct Fill(pub *mut u8, pub u64);

impl Sent for Fill {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        Ok(Argument::Output(!self.0.is_null(), Some(self.1)))
    }

    unsafe fn receive(
        &self,
        _: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let bytes = outputs.at_most(self.1)?;
        if !bytes.is_empty() && !self.0.is_null() {
            // SAFETY: the buffer has this room by the caller's promise.
            unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }
}

/// A pointer to which a function writes one value without pointers.
pub struct Put<T>(pub *mut T);

impl<T> Sent for Put<T> {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        Ok(Argument::Pointer(!self.0.is_null()))
    }

    unsafe fn receive(
        &self,
        _: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let bytes = outputs.at_most(size_of::<T>() as u64)?;
        if bytes.len() == size_of::<T>() && !self.0.is_null() {
            // SAFETY: writable for a `T` by the caller's promise.
            unsafe { self.0.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }
}

/// A mechanism: the pointer, and what the parameter is if the function decides it.
pub struct Mechanism(pub *const CK_MECHANISM, pub Option<Parameter>);

impl Mechanism {
    /// Returns the mechanism, and what its parameter is. `None` for `NULL`.
    ///
    /// # Safety
    ///
    /// The pointer is `NULL` or readable.
    unsafe fn read(&self) -> Option<(CK_MECHANISM, Parameter)> {
        // SAFETY: not null; readable by the caller's promise.
        let given = (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })?;
        Some((given, mechanism::parameter(given.mechanism, self.1)))
    }
}

impl Sent for Mechanism {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        let Some((given, parameter)) = (unsafe { self.read() }) else {
            return Ok(Argument::Mechanism(None, Content::Unread(false, 0)));
        };
        // SAFETY: the caller's promise.
        let content = unsafe { content(parameter, given.pParameter.cast(), given.ulParameterLen) };
        Ok(Argument::Mechanism(Some(given.mechanism), content?))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Mechanism(Some(_), content) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        let Some((given, parameter)) = (unsafe { self.read() }) else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { take_back(parameter, content, given.pParameter.cast(), outputs) }
    }
}

/// The parameter of a message.
pub struct Message(pub *mut u8, pub u64);

impl Sent for Message {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        Ok(Argument::Parameter(unsafe { content(Parameter::Message, self.0, self.1) }?))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Parameter(content) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { take_back(Parameter::Message, content, self.0, outputs) }
    }
}

/// # Safety
///
/// The contract of PKCS#11 for a parameter.
unsafe fn content<'a>(parameter: Parameter, pointer: *const u8, len: u64) -> Result<Content<'a>, Unfit> {
    let unread = Content::Unread(!pointer.is_null(), len);
    if pointer.is_null() {
        return Ok(unread);
    }
    match parameter.layout(len) {
        // SAFETY: the caller's promise. The struct has this length.
        Some(layout) => Ok(Content::Struct(len, unsafe { capture(layout, pointer, 1) }?)),
        None if parameter.is_plain(len) => {
            // SAFETY: the caller's promise.
            Ok(Content::Plain(Bytes::new(unsafe { &*slice_from_raw_parts(pointer, len as usize) })))
        }
        None => Ok(unread),
    }
}

/// # Safety
///
/// The contract of PKCS#11 for a parameter. `content` was read from it.
unsafe fn take_back(
    parameter: Parameter,
    content: &Content<'_>,
    pointer: *mut u8,
    outputs: &mut Outputs<'_, '_>,
) -> Result<(), Malformed> {
    let Content::Struct(len, image) = content else { return Ok(()) };
    let layout = parameter.layout(*len).ok_or(Malformed)?;
    // SAFETY: the caller's promise.
    unsafe { restore(image, layout, pointer, outputs) }
}

/// Attributes: those of a template, or those of `C_GetAttributeValue`.
pub struct Template(pub *mut CK_ATTRIBUTE, pub u64, pub &'static Layout);

impl Sent for Template {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        if self.0.is_null() || self.1 > MAX_ATTRIBUTES {
            return Ok(Argument::Template(self.1, None));
        }
        // SAFETY: the caller's promise.
        Ok(Argument::Template(self.1, Some(unsafe { capture(self.2, self.0.cast(), self.1) }?)))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Template(_, Some(image)) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { restore(image, self.2, self.0.cast(), outputs) }
    }
}
