//! The arguments of a call, as the agent passes them to the C interface. All pointers point to
//! memory of these types or to the message, or are `NULL`, whatever the message says, and all
//! lengths are those of this memory ([`Span`]).

use std::cell::RefCell;
use std::ptr::{null_mut, slice_from_raw_parts};

use cryptoki_sys::{CK_ATTRIBUTE, CK_MECHANISM, CK_RV, CK_ULONG, CKR_OK};
use jeton_agent_wire::argument::{Argument, Content, Input};
use jeton_agent_wire::channel::{KEPT, wipe};
use jeton_agent_wire::image::{Image, Item, number};
use jeton_agent_wire::layout::{
    ATTRIBUTE_LEN, ATTRIBUTE_READ, Layout, MAX_ATTRIBUTES, MAX_PLAIN, MAX_ROOM, Parameter,
};
use jeton_agent_wire::{MAX_SHORT, Malformed, mechanism, writes};
use serde_bytes::Bytes;

use crate::budget::{Budget, Unserved};
use crate::memory::{Memory, Rooms, Span};

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

/// Bytes for the C interface; `None` for `NULL`, with its length.
pub struct Given<'a>(Option<&'a [u8]>, u64);

impl<'a> Given<'a> {
    pub fn take(arguments: Arguments<'a, '_>) -> Result<Self, Unserved> {
        match arguments.next() {
            Some(Argument::Input(Input::Absent(len))) => Ok(Self(None, *len)),
            Some(Argument::Input(Input::Data(bytes))) => Ok(Self(Some(bytes), 0)),
            Some(Argument::Input(Input::Impossible(len))) if isize::try_from(*len).is_err() => {
                Err(Unserved::Impossible)
            }
            _ => Err(Malformed.into()),
        }
    }

    /// Takes bytes of which a function refuses more than [`MAX_SHORT`] by their length.
    pub fn take_short(arguments: Arguments<'a, '_>) -> Result<Self, Unserved> {
        match arguments.as_slice().first() {
            Some(Argument::Input(Input::Impossible(len)))
                if isize::try_from(*len).is_ok() && *len > MAX_SHORT as u64 =>
            {
                arguments.next();
                Ok(Self(Some(&LONG), 0))
            }
            _ => Self::take(arguments),
        }
    }

    /// Takes bytes of this length, or `NULL`.
    pub fn take_text(arguments: Arguments<'a, '_>, len: usize) -> Result<Self, Unserved> {
        Self::take_if(arguments, |bytes| bytes.len() == len)
    }

    /// Takes bytes that end with NUL or have 32 bytes, or `NULL`.
    pub fn take_name(arguments: Arguments<'a, '_>) -> Result<Self, Unserved> {
        Self::take_if(arguments, |bytes| bytes.last() == Some(&0) || bytes.len() >= 32)
    }

    /// Takes bytes without a length that the function gets, or `NULL`.
    fn take_if(arguments: Arguments<'a, '_>, fits: impl FnOnce(&[u8]) -> bool) -> Result<Self, Unserved> {
        match Self::take(arguments) {
            Ok(given) if given.0.is_none_or(fits) => Ok(given),
            _ => Err(Malformed.into()),
        }
    }

    fn span(&self) -> Span {
        self.0.map_or_else(|| Span::null(self.1), Span::read)
    }

    /// Returns the pointer. The C interface only reads there.
    pub fn pointer(&self) -> *mut u8 {
        self.span().pointer
    }

    pub fn length(&self) -> u64 {
        self.span().len
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
    /// The number of items; then what the function writes there.
    len: CK_ULONG,
    item: u64,
    bytes: Vec<u8>,
}

impl Buffer {
    /// Takes the room for a list of numbers. Functions write what they have, however much room the
    /// application says.
    pub fn take_list(arguments: Arguments<'_, '_>, budget: &mut Budget) -> Result<Self, Unserved> {
        Self::take(arguments, 8, budget)
    }

    /// Takes a buffer in the two-call convention.
    pub fn take_out(arguments: Arguments<'_, '_>, budget: &mut Budget) -> Result<Self, Unserved> {
        match arguments.as_slice().first() {
            Some(Argument::Output(true, Some(room))) if isize::try_from(*room).is_err() => {
                Err(Unserved::Impossible)
            }
            _ => Self::take(arguments, 1, budget),
        }
    }

    /// Takes a buffer that the function fills. It refuses one that no memory has as it refuses
    /// `NULL`.
    pub fn take_filled(arguments: Arguments<'_, '_>, budget: &mut Budget) -> Result<Self, Unserved> {
        match arguments.as_slice().first() {
            Some(Argument::Output(true, Some(room))) if isize::try_from(*room).is_err() => {
                arguments.next();
                let (len, bytes) = (Span::null(*room).len, Vec::new());
                Ok(Self { given: false, has_len: true, len, item: 1, bytes })
            }
            _ => Self::take(arguments, 1, budget),
        }
    }

    /// Takes a buffer for items of this number of bytes.
    fn take(arguments: Arguments<'_, '_>, item: u64, budget: &mut Budget) -> Result<Self, Unserved> {
        let Some(Argument::Output(given, room)) = arguments.next() else { return Err(Malformed.into()) };
        let has_len = room.is_some();
        if !given {
            let len = Span::null(room.unwrap_or(0).saturating_mul(item)).len / item;
            return Ok(Self { given: false, has_len, len, item, bytes: Vec::new() });
        }
        let len = room.unwrap_or(0).min(MAX_ROOM / item);
        let size = (len * item) as usize;
        // The answer has a copy.
        budget.take(2 * size)?;
        let mut bytes = ROOM.take();
        if bytes.capacity() < size {
            drop(bytes);
            bytes = vec![0; size];
        }
        bytes.resize(size, 0);
        Ok(Self { given: true, has_len, len, item, bytes })
    }

    pub fn pointer<T>(&mut self) -> *mut T {
        if self.given { Span::written(&mut self.bytes).pointer.cast() } else { null_mut() }
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
        if self.bytes.capacity() > 0 {
            wipe(&mut self.bytes);
            ROOM.set(std::mem::take(&mut self.bytes));
        }
    }
}

fn number_bytes(number: &CK_ULONG) -> &[u8] {
    // SAFETY: an integer of 8 bytes.
    unsafe { &*slice_from_raw_parts(std::ptr::from_ref(number).cast(), size_of::<CK_ULONG>()) }
}

/// A parameter for the C interface.
enum Rebuilt<'a> {
    /// `NULL` with a length.
    Null(u64),
    /// Zeros in place of what is not read.
    Zeros(Vec<u8>),
    Plain(&'a [u8]),
    Struct(Memory<'a>),
}

impl<'a> Rebuilt<'a> {
    fn build(parameter: Parameter, content: &'a Content<'_>, budget: &mut Budget) -> Result<Self, Unserved> {
        match content {
            Content::Unread(true, len) if *len <= MAX_PLAIN => Ok(Self::Zeros(vec![0; *len as usize])),
            Content::Unread(_, len) => Ok(Self::Null(*len)),
            Content::Plain(bytes) if parameter.is_plain(bytes.len() as u64) => Ok(Self::Plain(bytes)),
            Content::Plain(_) => Err(Malformed.into()),
            Content::Struct(len, image) => {
                let layout = parameter.layout(*len).ok_or(Malformed)?;
                Ok(Self::Struct(Memory::build(layout, 1, image, budget)?))
            }
        }
    }

    fn span(&mut self) -> Span {
        match self {
            Self::Null(len) => Span::null(*len),
            Self::Zeros(zeros) => Span::written(zeros),
            Self::Plain(bytes) => Span::read(bytes),
            Self::Struct(memory) => memory.span(),
        }
    }

    fn report<'b>(&'b self, outputs: &mut Vec<&'b Bytes>) {
        if let Self::Struct(memory) = self {
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
        let Span { pointer, len } = parameter.span();
        let mechanism = mechanism.map(|mechanism| CK_MECHANISM {
            mechanism,
            pParameter: pointer.cast(),
            ulParameterLen: len,
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
        self.0.span().pointer.cast()
    }

    pub fn length(&mut self) -> u64 {
        self.0.span().len
    }

    /// Adds what a call wrote.
    pub fn report<'b>(&'b mut self, outputs: &mut Vec<&'b Bytes>) {
        self.0.report(outputs);
    }
}

/// The bytes of room that attributes get without a question for the lengths of their values.
const MUCH: u64 = 64 << 10;

/// Returns how much room the attributes say, also those in attributes.
fn said(image: &Image<'_>) -> u64 {
    let mut items = &image.0[..];
    let mut said = 0;
    while let Ok(item) = Item::take(&mut items) {
        if let Item::Structs(attributes) = item {
            let lengths =
                attributes.chunks_exact(ATTRIBUTE_READ.size).map(|bytes| number(bytes, ATTRIBUTE_LEN));
            said += lengths.map(|len| len.min(MAX_ROOM)).sum::<u64>();
        }
    }
    said
}

/// Attributes for the C interface; `None` for `NULL`, with their number.
pub struct TemplateGiven<'a>(Option<Memory<'a>>, u64);

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
        Ok(Self(image.as_ref().map(build).transpose()?, *count))
    }

    /// Takes the attributes that a function reads from an object. If the application says much
    /// room, `ask` calls the function without any first, so that the values alone need memory.
    pub fn take_values(
        arguments: Arguments<'a, '_>,
        budget: &mut Budget,
        ask: impl FnOnce(*mut CK_ATTRIBUTE, u64) -> CK_RV,
    ) -> Result<Self, Unserved> {
        let Some(Argument::Template(count, Some(image))) = arguments.as_slice().first() else {
            return Self::take(arguments, &ATTRIBUTE_READ, budget);
        };
        if *count > MAX_ATTRIBUTES || said(image) <= MUCH {
            return Self::take(arguments, &ATTRIBUTE_READ, budget);
        }
        arguments.next();
        let mut build = |rooms| Memory::build_with(rooms, &ATTRIBUTE_READ, *count, image, budget);
        let mut asked = build(Rooms::Null)?;
        let mut lengths = Vec::new();
        if writes(ask(asked.span().pointer.cast(), asked.count())) {
            asked.lengths(&mut lengths);
        }
        Ok(Self(Some(build(Rooms::Needed(lengths.iter()))?), *count))
    }

    pub fn pointer(&mut self) -> *mut CK_ATTRIBUTE {
        self.0.as_mut().map_or(null_mut(), |memory| memory.span().pointer.cast())
    }

    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or_else(|| Span::null(self.1).len, Memory::count)
    }

    /// Adds what a call wrote.
    pub fn report<'b>(&'b mut self, outputs: &mut Vec<&'b Bytes>) {
        if let Some(memory) = &self.0 {
            memory.report(outputs);
        }
    }
}
