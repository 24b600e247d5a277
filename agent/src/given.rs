//! The arguments of a call, as the agent passes them to the C interface. All pointers point to
//! memory of these types or to the message, or are `NULL`, whatever the message says.

use std::cell::RefCell;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts};

use cryptoki_sys::*;
use jeton_agent_wire::argument::{Argument, Content, Input};
use jeton_agent_wire::channel::{KEPT, wipe};
use jeton_agent_wire::layout::{Layout, MAX_ATTRIBUTES, MAX_PLAIN, MAX_ROOM, Parameter};
use jeton_agent_wire::{MAX_SHORT, Malformed, mechanism};
use serde_bytes::Bytes;

use crate::budget::{Budget, Unserved};
use crate::memory::Memory;

/// The arguments of a call in the agent. Each kind takes the next one.
pub type Arguments<'a, 'b> = &'b mut std::slice::Iter<'a, Argument<'a>>;

pub fn take_number(arguments: Arguments<'_, '_>) -> Result<u64, Malformed> {
    match arguments.next() {
        Some(Argument::Number(number)) => Ok(*number),
        _ => Err(Malformed),
    }
}

/// A pointer that the C interface does not follow, or a value that it writes.
pub struct Pointee<T> {
    given: bool,
    place: Box<[u8]>,
    value: std::marker::PhantomData<T>,
}

impl<T> Pointee<T> {
    pub fn take(arguments: Arguments<'_, '_>) -> Result<Self, Malformed> {
        let Some(Argument::Pointer(given)) = arguments.next() else { return Err(Malformed) };
        let place = vec![0; size_of::<T>()].into();
        Ok(Self { given: *given, place, value: std::marker::PhantomData })
    }

    pub fn pointer(&mut self) -> *mut T {
        if self.given { self.place.as_mut_ptr().cast() } else { null_mut() }
    }

    /// Adds the value that a successful call wrote.
    pub fn report<'a>(&'a mut self, code: CK_RV, outputs: &mut Vec<&'a Bytes>) {
        let written = code == CKR_OK && self.given;
        outputs.push(Bytes::new(if written { &self.place } else { &[] }));
    }

    /// Clears the bytes that no field uses: they may have anything of this process.
    pub fn clear_padding(&mut self, fields: &[(usize, usize)]) {
        let mut used = fields.iter().copied().peekable();
        let mut at = 0;
        while at < self.place.len() {
            match used.peek() {
                Some((start, len)) if *start == at => {
                    at += len;
                    used.next();
                }
                _ => {
                    // SAFETY: inside the place. A write needs no value there.
                    unsafe { self.place.as_mut_ptr().add(at).write_volatile(0) };
                    at += 1;
                }
            }
        }
    }
}

/// What a function gets in place of bytes that are too long to travel.
static LONG: [u8; MAX_SHORT + 1] = [0; MAX_SHORT + 1];

/// Bytes for the C interface.
pub struct Given<'a>(Input<'a>);

impl<'a> Given<'a> {
    pub fn take(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        match arguments.next() {
            Some(Argument::Input(Input::Impossible(len))) if isize::try_from(*len).is_ok() => Err(Malformed),
            Some(Argument::Input(input)) => Ok(Self(*input)),
            _ => Err(Malformed),
        }
    }

    /// Takes bytes of which a function refuses more than [`MAX_SHORT`] by their length.
    pub fn take_short(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        match arguments.next() {
            Some(Argument::Input(Input::Impossible(len))) if (MAX_SHORT as u64) < *len => {
                let is_possible = isize::try_from(*len).is_ok();
                Ok(Self(if is_possible { Input::Data(Bytes::new(&LONG)) } else { Input::Impossible(*len) }))
            }
            Some(Argument::Input(input @ (Input::Absent(_) | Input::Data(_)))) => Ok(Self(*input)),
            _ => Err(Malformed),
        }
    }

    /// Takes bytes of this length, or `NULL`.
    pub fn take_text(arguments: Arguments<'a, '_>, len: usize) -> Result<Self, Malformed> {
        let given = Self::take(arguments)?;
        match given.0 {
            Input::Data(bytes) if bytes.len() != len => Err(Malformed),
            Input::Impossible(_) => Err(Malformed),
            _ => Ok(given),
        }
    }

    /// Takes bytes that end with NUL or have 32 bytes, or `NULL`.
    pub fn take_name(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        let given = Self::take(arguments)?;
        match given.0 {
            Input::Data(bytes) if bytes.last() != Some(&0) && bytes.len() < 32 => Err(Malformed),
            Input::Impossible(_) => Err(Malformed),
            _ => Ok(given),
        }
    }

    /// Returns the pointer. The C interface only reads there.
    pub fn pointer(&self) -> *mut u8 {
        match self.0 {
            Input::Absent(_) => null_mut(),
            // Every function refuses the length without reading.
            Input::Impossible(_) => NonNull::dangling().as_ptr(),
            Input::Data(bytes) if bytes.is_empty() => NonNull::dangling().as_ptr(),
            Input::Data(bytes) => bytes.as_ptr().cast_mut(),
        }
    }

    /// Returns the length that the application passed.
    pub fn length(&self) -> u64 {
        match self.0 {
            Input::Absent(len) | Input::Impossible(len) => len,
            Input::Data(bytes) => bytes.len() as u64,
        }
    }
}

thread_local! {
    /// The memory of an output, wiped. The next output of the connection takes it.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns the size of the memory that stays for the next output.
pub fn room() -> usize {
    ROOM.with_borrow(Vec::capacity)
}

/// Drops that memory if it is long.
pub fn drop_room() {
    if room() > KEPT {
        ROOM.take();
    }
}

/// A buffer for the C interface.
pub struct Buffer {
    given: bool,
    has_len: bool,
    len: CK_ULONG,
    item: u64,
    bytes: Vec<u8>,
}

impl Buffer {
    /// Takes a buffer for items of this number of bytes.
    pub fn take(arguments: Arguments<'_, '_>, item: u64, budget: &mut Budget) -> Result<Self, Unserved> {
        let Some(Argument::Output(given, room)) = arguments.next() else { return Err(Malformed.into()) };
        let len = room.unwrap_or(0).min(MAX_ROOM / item);
        // An impossible length stays one, so that it is refused.
        let len = if room.is_some_and(|room| isize::try_from(room).is_err()) { u64::MAX } else { len };
        let size = if *given && len != u64::MAX { (len * item) as usize } else { 0 };
        // The answer has a copy.
        budget.take(2 * size)?;
        let mut bytes = ROOM.take();
        if bytes.capacity() < size {
            drop(bytes);
            bytes = vec![0; size];
        }
        bytes.resize(size, 0);
        Ok(Self { given: *given, has_len: room.is_some(), len, item, bytes })
    }

    pub fn pointer<T>(&mut self) -> *mut T {
        match self.given {
            false => null_mut(),
            true if self.bytes.is_empty() => NonNull::<u64>::dangling().as_ptr().cast(),
            true => self.bytes.as_mut_ptr().cast(),
        }
    }

    pub fn len_pointer(&mut self) -> *mut CK_ULONG {
        if self.has_len { &raw mut self.len } else { null_mut() }
    }

    pub fn room(&self) -> CK_ULONG {
        self.len
    }

    /// Adds the length and the bytes that a call wrote.
    pub fn report<'a>(&'a mut self, code: CK_RV, outputs: &mut Vec<&'a Bytes>) {
        if self.has_len {
            outputs.push(Bytes::new(number_bytes(&self.len)));
            self.report_filled(code, outputs);
        }
    }

    /// Adds the bytes that a call wrote to a buffer without a length.
    pub fn report_filled<'a>(&'a self, code: CK_RV, outputs: &mut Vec<&'a Bytes>) {
        let len = self.len.saturating_mul(self.item).min(self.bytes.len() as u64);
        let written = if code == CKR_OK && self.given { &self.bytes[..len as usize] } else { &[] };
        outputs.push(Bytes::new(written));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
        ROOM.set(std::mem::take(&mut self.bytes));
    }
}

fn number_bytes(number: &CK_ULONG) -> &[u8] {
    // SAFETY: an integer of 8 bytes.
    unsafe { &*slice_from_raw_parts(std::ptr::from_ref(number).cast(), size_of::<CK_ULONG>()) }
}

/// A parameter for the C interface.
enum Rebuilt<'a> {
    /// `NULL` with a length, or zeros in place of what is not read.
    Unread(Vec<u8>, u64),
    Plain(&'a [u8]),
    Struct(Memory<'a>, u64),
}

impl<'a> Rebuilt<'a> {
    fn build(parameter: Parameter, content: &'a Content<'_>, budget: &mut Budget) -> Result<Self, Unserved> {
        match content {
            Content::Unread(given, len) => {
                let zeros = if *given && *len <= MAX_PLAIN { vec![0; *len as usize] } else { Vec::new() };
                Ok(Self::Unread(zeros, *len))
            }
            Content::Plain(bytes) if parameter.is_plain(bytes.len() as u64) => Ok(Self::Plain(bytes)),
            Content::Plain(_) => Err(Malformed.into()),
            Content::Struct(len, image) => {
                let layout = parameter.layout(*len).ok_or(Malformed)?;
                Ok(Self::Struct(Memory::build(layout, 1, image, budget)?, *len))
            }
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        match self {
            Self::Unread(zeros, _) if zeros.is_empty() => null_mut(),
            Self::Unread(zeros, _) => zeros.as_mut_ptr(),
            Self::Plain(bytes) => bytes.as_ptr().cast_mut(),
            Self::Struct(memory, _) => memory.address(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Unread(_, len) | Self::Struct(_, len) => *len,
            Self::Plain(bytes) => bytes.len() as u64,
        }
    }

    fn report<'b>(&'b self, outputs: &mut Vec<&'b Bytes>) {
        if let Self::Struct(memory, _) = self {
            memory.report(outputs);
        }
    }
}

/// A mechanism for the C interface.
pub struct MechanismGiven<'a> {
    mechanism: Option<CK_MECHANISM>,
    parameter: Rebuilt<'a>,
}

impl<'a> MechanismGiven<'a> {
    /// Takes a mechanism. `fixed` is what the parameter is if the function decides it.
    pub fn take(
        arguments: Arguments<'a, '_>,
        fixed: Option<Parameter>,
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        let Some(Argument::Mechanism(mechanism, content)) = arguments.next() else {
            return Err(Malformed.into());
        };
        let parameter = mechanism.map_or(Parameter::None, |mechanism| mechanism::parameter(mechanism, fixed));
        let mut parameter = Rebuilt::build(parameter, content, budget)?;
        let mechanism = mechanism.map(|mechanism| CK_MECHANISM {
            mechanism,
            pParameter: parameter.pointer().cast(),
            ulParameterLen: parameter.len(),
        });
        Ok(Self { mechanism, parameter })
    }

    pub fn pointer(&mut self) -> *mut CK_MECHANISM {
        self.mechanism.as_mut().map_or(null_mut(), |mechanism| mechanism)
    }

    /// Adds what a call wrote.
    pub fn report<'b>(&'b mut self, outputs: &mut Vec<&'b Bytes>) {
        self.parameter.report(outputs);
    }
}

/// The parameter of a message for the C interface.
pub struct MessageGiven<'a>(Rebuilt<'a>);

impl<'a> MessageGiven<'a> {
    pub fn take(arguments: Arguments<'a, '_>, budget: &mut Budget) -> Result<Self, Unserved> {
        match arguments.next() {
            Some(Argument::Parameter(content)) => {
                Rebuilt::build(Parameter::Message, content, budget).map(Self)
            }
            _ => Err(Malformed.into()),
        }
    }

    pub fn pointer<T>(&mut self) -> *mut T {
        self.0.pointer().cast()
    }

    /// Returns the length that the application passed.
    pub fn length(&self) -> u64 {
        self.0.len()
    }

    /// Adds what a call wrote.
    pub fn report<'b>(&'b mut self, outputs: &mut Vec<&'b Bytes>) {
        self.0.report(outputs);
    }
}

/// Attributes for the C interface.
pub struct TemplateGiven<'a> {
    memory: Option<Memory<'a>>,
    count: u64,
}

impl<'a> TemplateGiven<'a> {
    /// Takes the attributes of a template. `layout` says whether the function reads or writes them.
    pub fn take(
        arguments: Arguments<'a, '_>,
        layout: &'static Layout,
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        let Some(Argument::Template(count, image)) = arguments.next() else { return Err(Malformed.into()) };
        Malformed::unless(image.is_none() || *count <= MAX_ATTRIBUTES)?;
        let build = |image| Memory::build(layout, *count, image, budget);
        Ok(Self { memory: image.as_ref().map(build).transpose()?, count: *count })
    }

    pub fn pointer(&mut self) -> *mut CK_ATTRIBUTE {
        self.memory.as_mut().map_or(null_mut(), |memory| memory.address().cast())
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds what a call wrote.
    pub fn report<'b>(&'b mut self, outputs: &mut Vec<&'b Bytes>) {
        if let Some(memory) = &self.memory {
            memory.report(outputs);
        }
    }
}
