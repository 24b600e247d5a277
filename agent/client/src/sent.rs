//! The arguments of a call in the client: how each kind is read, and how what the function wrote is
//! taken back.
//!
//! All pointers here are the application's, valid by the contract of PKCS#11. What the agent says
//! is not trusted: it chooses no pointer, and writes no more than the application's lengths allow.
//! A call that failed changes no memory but the lengths and attributes that its code announces.

use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::ptr::slice_from_raw_parts;

use cryptoki_sys::{CK_ASYNC_DATA, CK_ATTRIBUTE, CK_MECHANISM, CK_ULONG, CKR_BUFFER_TOO_SMALL, CKR_OK};
use jeton_agent_wire::argument::{Argument, Content, Input};
use jeton_agent_wire::layout::{Layout, MAX_ATTRIBUTES, MAX_ROOM, Parameter, Written};
use jeton_agent_wire::{MAX_MESSAGE, MAX_SHORT, Malformed, Unfit, mechanism};
use serde_bytes::Bytes;

use crate::capture::{Known, Results, capture, restore};
use crate::system::{self, Kept};

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

    /// Returns whether only another call gets all that the function writes.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Takes what the function wrote. `sent` is the argument that was read.
    ///
    /// # Safety
    ///
    /// As for [`argument`](Self::argument).
    unsafe fn receive(&self, sent: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let _ = (sent, results);
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

/// A buffer for items of this number of bytes, and where their number goes. `None` for the room:
/// the two-call convention, in which the number is the room first.
pub struct Items(pub *mut u8, pub u64, pub Option<u64>, pub *mut CK_ULONG);

impl Sent for Items {
    fn buffer(&self) -> Option<*const u8> {
        Some(self.0)
    }

    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: not null; readable by the caller's promise.
        let room = || self.2.unwrap_or_else(|| unsafe { system::read(self.3) });
        Ok(Argument::Output(!self.0.is_null(), (!self.3.is_null()).then(room)))
    }

    unsafe fn receive(&self, sent: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let Self(buffer, item, given, len) = *self;
        let Argument::Output(_, Some(room)) = sent else { return Ok(()) };
        let number = results.next(8)?;
        let count = number.try_into().map(u64::from_ne_bytes).map_err(|_| Malformed)?;
        let bytes = results.at_most(room.saturating_mul(item))?;
        let said = count.checked_mul(item).filter(|said| *said <= MAX_MESSAGE as u64).ok_or(Malformed)?;
        let is_filled = results.code == CKR_OK && !buffer.is_null();
        // The application reads as many items as the number says.
        Malformed::unless(!is_filled || said == bytes.len() as u64)?;
        // Only the two-call convention says how much room there has to be.
        if results.code == CKR_OK || results.code == CKR_BUFFER_TOO_SMALL && given.is_none() {
            results.put(len.cast(), system::numbers(number));
        }
        if is_filled {
            if item == 1 {
                results.put(buffer, bytes);
            } else {
                results.put(buffer, system::numbers(bytes));
            }
        }
        Ok(())
    }
}

/// A buffer that a function fills.
pub struct Fill(pub *mut u8, pub u64);

impl Sent for Fill {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        if (MAX_ROOM + 1..=isize::MAX as u64).contains(&self.1) {
            return Err(Unfit::TooLong);
        }
        Ok(Argument::Output(!self.0.is_null(), Some(self.1)))
    }

    unsafe fn receive(&self, _: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        if let Some(bytes) = results.value(self.0, self.1)? {
            results.put(self.0, bytes);
        }
        Ok(())
    }
}

/// A pointer to which a function writes one value without pointers.
pub struct Put<T>(pub *mut T);

impl<T: Written + 'static> Sent for Put<T> {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        Ok(Argument::Pointer(!self.0.is_null()))
    }

    unsafe fn receive(&self, _: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let Some(value) = results.value(self.0.cast(), size_of::<T>() as u64)? else { return Ok(()) };
        for (place, bytes) in system::parts(self.0.cast(), value, T::FIELDS) {
            results.put(place, bytes);
        }
        // The one pointer in such a value. The agent has none for this process.
        if TypeId::of::<T>() == TypeId::of::<CK_ASYNC_DATA>() {
            results.put(self.0.cast::<u8>().wrapping_add(system::ASYNC_VALUE), &[0; 8][..]);
        }
        Ok(())
    }
}

/// A mechanism: the pointer, and what the parameter is if the function decides it.
pub struct Mechanism(pub *const CK_MECHANISM, pub Option<Parameter>, pub Kept);

impl Mechanism {
    /// Returns the mechanism, and what its parameter is. `None` for `NULL`.
    ///
    /// # Safety
    ///
    /// The pointer is `NULL` or readable.
    unsafe fn read(&self) -> Option<(CK_MECHANISM, Parameter)> {
        // SAFETY: not null; readable by the caller's promise.
        let given = (!self.0.is_null()).then(|| unsafe { system::mechanism(self.0) })?;
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
        let content = unsafe { content(parameter, given.pParameter.cast(), given.ulParameterLen, &self.2) };
        Ok(Argument::Mechanism(Some(given.mechanism), content?))
    }

    unsafe fn receive(&self, sent: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let Argument::Mechanism(Some(_), content) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        let Some((given, parameter)) = (unsafe { self.read() }) else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { take_back(parameter, content, given.pParameter.cast(), results) }
    }
}

pub struct Message(pub *mut u8, pub u64, pub Kept);

impl Sent for Message {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        // SAFETY: the caller's promise.
        Ok(Argument::Parameter(unsafe { content(Parameter::Message, self.0, self.1, &self.2) }?))
    }

    unsafe fn receive(&self, sent: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let Argument::Parameter(content) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { take_back(Parameter::Message, content, self.0, results) }
    }
}

/// # Safety
///
/// The contract of PKCS#11 for a parameter.
unsafe fn content<'a>(
    parameter: Parameter,
    pointer: *const u8,
    len: u64,
    kept: &'a Kept,
) -> Result<Content<'a>, Unfit> {
    let len = system::parameter_len(parameter, len);
    let unread = Content::Unread(!pointer.is_null(), len);
    if pointer.is_null() {
        return Ok(unread);
    }
    match parameter.layout(len) {
        // SAFETY: the caller's promise. The struct has this length.
        Some(layout) => Ok(Content::Struct(len, unsafe { capture(layout, pointer, 1, &Known::new()) }?)),
        None if parameter.is_plain(len) => {
            // SAFETY: the caller's promise.
            Ok(Content::Plain(Bytes::new(unsafe { system::plain(parameter, pointer, len, kept) })))
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
    results: &mut Results<'_>,
) -> Result<(), Malformed> {
    let Content::Struct(len, image) = content else { return Ok(()) };
    let layout = parameter.layout(*len).ok_or(Malformed)?;
    let before = results.writes.len();
    // SAFETY: the caller's promise.
    unsafe { restore(image, layout, pointer, &mut Known::new(), results) }?;
    if results.code != CKR_OK {
        results.writes.truncate(before);
    }
    Ok(())
}

/// Attributes: those of a template, or those of `C_GetAttributeValue`. An application may pass an
/// array that contains anything for an array attribute that the object lacks. So the first call
/// asks which types it has, and the next one gets the values.
pub struct Template {
    first: *mut CK_ATTRIBUTE,
    count: u64,
    layout: &'static Layout,
    known: RefCell<Known>,
    is_unfinished: Cell<bool>,
}

impl Template {
    pub fn new(first: *mut CK_ATTRIBUTE, count: u64, layout: &'static Layout) -> Self {
        Self { first, count, layout, known: RefCell::default(), is_unfinished: Cell::default() }
    }
}

impl Sent for Template {
    unsafe fn argument<'a>(&'a self) -> Result<Argument<'a>, Unfit> {
        self.is_unfinished.set(false);
        if self.first.is_null() || self.count > MAX_ATTRIBUTES {
            return Ok(Argument::Template(self.count, None));
        }
        // SAFETY: the caller's promise.
        let image = unsafe { capture(self.layout, self.first.cast(), self.count, &self.known.borrow()) };
        Ok(Argument::Template(self.count, Some(image?)))
    }

    fn is_unfinished(&self) -> bool {
        self.is_unfinished.get()
    }

    unsafe fn receive(&self, sent: &Argument<'_>, results: &mut Results<'_>) -> Result<(), Malformed> {
        let Argument::Template(_, Some(image)) = sent else { return Ok(()) };
        let known = &mut *self.known.borrow_mut();
        let before = known.len();
        // SAFETY: the caller's promise.
        unsafe { restore(image, self.layout, self.first.cast(), known, results) }?;
        self.is_unfinished.set(known.len() > before);
        Ok(())
    }
}
