//! The arguments of functions: how the client sends each kind and takes its results back, and what
//! the agent passes to the C interface in its place.

use std::ptr::{NonNull, null_mut, slice_from_raw_parts};

use cryptoki_sys::*;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use crate::image::{Image, Malformed, Memory, Outputs};
use crate::layout::{ATTRIBUTE, ATTRIBUTE_READ, Layout, MAX_ATTRIBUTES, MAX_PLAIN, MAX_ROOM, Parameter};

/// An argument of a call as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub enum Argument<'a> {
    /// A number.
    Number(u64),
    /// A pointer that nothing reads. True unless it is `NULL`.
    Pointer(bool),
    /// Bytes.
    Input(#[serde(borrow)] Input<'a>),
    /// A buffer in the two-call convention, or a list of numbers: whether the pointer is not
    /// `NULL`, and the room. `None` if the pointer to the length is `NULL`.
    Output(bool, Option<u64>),
    /// A mechanism; `None` for `NULL`.
    Mechanism(Option<u64>, #[serde(borrow)] Content<'a>),
    /// The parameter of a message.
    Parameter(#[serde(borrow)] Content<'a>),
    /// Attributes.
    Template(#[serde(borrow)] Input<'a>, #[serde(borrow)] Option<Image<'a>>),
}

impl Argument<'_> {
    /// Returns the number of bytes that a function may write into the buffer.
    pub fn room(&self) -> usize {
        match self {
            Self::Output(true, Some(room)) => (*room).min(MAX_ROOM) as usize,
            _ => 0,
        }
    }
}

/// Bytes of the application.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Input<'a> {
    /// `NULL`, or a length that no memory has, with this length. Both are refused alike.
    Absent(u64),
    /// The bytes.
    Data(#[serde(borrow)] &'a Bytes),
}

/// A parameter.
#[derive(Debug, Serialize, Deserialize)]
pub enum Content<'a> {
    /// `NULL`, or a parameter that no function reads, with its length. True unless it is `NULL`.
    Unread(bool, u64),
    /// Bytes without pointers.
    Plain(#[serde(borrow)] &'a Bytes),
    /// A struct with pointers.
    Struct(#[serde(borrow)] Image<'a>),
}

/// Tells what the parameter of a mechanism is.
pub trait Parameters {
    /// Returns what the parameter of a mechanism is. [`Parameter::None`] for an unknown one.
    fn parameter(&self, mechanism: CK_MECHANISM_TYPE) -> Parameter;
}

/// An argument in the client.
pub trait Sent {
    /// Reads the argument.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for the argument, until the call ends.
    unsafe fn argument<'a>(&'a self, parameters: &dyn Parameters) -> Argument<'a>;

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
    if pointer.is_null() || isize::try_from(len).is_err() {
        return Input::Absent(len);
    }
    // SAFETY: the caller's promise.
    Input::Data(Bytes::new(unsafe { &*slice_from_raw_parts(pointer, len as usize) }))
}

/// A number.
pub struct Number(pub u64);

impl Sent for Number {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        Argument::Number(self.0)
    }
}

/// A pointer that is not followed.
pub struct Void(pub *const ());

impl Sent for Void {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        Argument::Pointer(!self.0.is_null())
    }
}

/// Bytes.
pub struct In(pub *const u8, pub u64);

impl Sent for In {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        // SAFETY: the caller's promise.
        Argument::Input(unsafe { input(self.0, self.1) })
    }
}

/// Bytes up to the first NUL, of which a function reads at most 32.
pub struct Name(pub *const u8);

impl Sent for Name {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        if self.0.is_null() {
            return Argument::Input(Input::Absent(0));
        }
        // SAFETY: readable up to the first NUL by the caller's promise.
        let len = (0..32).find(|index| unsafe { *self.0.add(*index) } == 0).map_or(32, |nul| nul + 1);
        // SAFETY: as above.
        Argument::Input(unsafe { input(self.0, len as u64) })
    }
}

/// A buffer in the two-call convention.
pub struct Out(pub *mut u8, pub *mut CK_ULONG);

impl Sent for Out {
    fn buffer(&self) -> Option<*const u8> {
        Some(self.0)
    }

    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        // SAFETY: not null; readable by the caller's promise.
        let room = (!self.1.is_null()).then(|| unsafe { self.1.read_unaligned() });
        Argument::Output(!self.0.is_null(), room)
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Output(_, Some(room)) = sent else { return Ok(()) };
        let len = outputs.at_most(8)?;
        let bytes = outputs.at_most(*room)?;
        if let Ok(len) = len.try_into() {
            // SAFETY: not null; writable by the caller's promise.
            unsafe { self.1.write_unaligned(u64::from_ne_bytes(len)) };
        }
        if !bytes.is_empty() && !self.0.is_null() {
            // SAFETY: the buffer has this room by the caller's promise.
            unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }
}

/// A list of numbers in the two-call convention.
pub struct List(pub *mut CK_ULONG, pub *mut CK_ULONG);

impl Sent for List {
    unsafe fn argument<'a>(&'a self, parameters: &dyn Parameters) -> Argument<'a> {
        // SAFETY: the caller's promise.
        unsafe { Argument::Output(!self.0.is_null(), Out(null_mut(), self.1).room(parameters)) }
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Output(pointer, room) = sent else { return Ok(()) };
        let sent = Argument::Output(*pointer, room.map(|room| room.saturating_mul(8)));
        // SAFETY: the caller's promise; the list has 8 bytes for each number.
        unsafe { Out(self.0.cast(), self.1).receive(&sent, code, outputs) }
    }
}

impl Out {
    /// # Safety
    ///
    /// As for [`Sent::argument`].
    unsafe fn room(&self, parameters: &dyn Parameters) -> Option<u64> {
        // SAFETY: the caller's promise.
        match unsafe { self.argument(parameters) } {
            Argument::Output(_, room) => room,
            _ => None,
        }
    }
}

/// The results of `C_FindObjects`: the handles, the room, and their number.
pub struct Found(pub *mut CK_ULONG, pub u64, pub *mut CK_ULONG);

impl Sent for Found {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        // `NULL` for the number is `None`, and every room is a number.
        Argument::Output(!self.0.is_null(), (!self.2.is_null()).then_some(self.1))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        code: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Output(pointer, room @ Some(_)) = sent else { return Ok(()) };
        let sent = Argument::Output(*pointer, room.map(|room| room.saturating_mul(8)));
        if code != CKR_OK {
            // The number is written on success only.
            outputs.at_most(8)?;
            outputs.at_most(0)?;
            return Ok(());
        }
        // SAFETY: the caller's promise; the array has 8 bytes for each handle.
        unsafe { Out(self.0.cast(), self.2).receive(&sent, code, outputs) }
    }
}

/// A buffer that a function fills.
pub struct Fill(pub *mut u8, pub u64);

impl Sent for Fill {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        Argument::Output(!self.0.is_null(), Some(self.1))
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
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        Argument::Pointer(!self.0.is_null())
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
    /// Returns the mechanism, what its parameter is, and the parameter.
    ///
    /// # Safety
    ///
    /// The pointer is `NULL` or readable.
    unsafe fn read(&self, parameters: &dyn Parameters) -> Option<(CK_MECHANISM, Parameter)> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null; readable by the caller's promise.
        let given = unsafe { self.0.read_unaligned() };
        let known = parameters.parameter(given.mechanism);
        // Another mechanism is refused before its parameter is read.
        let parameter = match (self.1, known) {
            (Some(parameter), Parameter::Gcm | Parameter::Ccm | Parameter::Poly1305) => parameter,
            (Some(_), _) => Parameter::None,
            (None, known) => known,
        };
        Some((given, parameter))
    }
}

impl Sent for Mechanism {
    unsafe fn argument<'a>(&'a self, parameters: &dyn Parameters) -> Argument<'a> {
        // SAFETY: the caller's promise.
        match unsafe { self.read(parameters) } {
            None => Argument::Mechanism(None, Content::Unread(false, 0)),
            Some((given, parameter)) => {
                // SAFETY: the caller's promise.
                let content = unsafe { content(parameter, given.pParameter.cast(), given.ulParameterLen) };
                Argument::Mechanism(Some(given.mechanism), content)
            }
        }
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Mechanism(Some(_), content) = sent else { return Ok(()) };
        // SAFETY: the image was captured from it.
        let given = unsafe { self.0.read_unaligned() };
        // SAFETY: the caller's promise.
        unsafe { restore(content, given.pParameter.cast(), outputs) }
    }
}

/// The parameter of a message.
pub struct Message(pub *mut u8, pub u64);

impl Sent for Message {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        // SAFETY: the caller's promise.
        Argument::Parameter(unsafe { content(Parameter::Message, self.0, self.1) })
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Parameter(content) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { restore(content, self.0, outputs) }
    }
}

/// # Safety
///
/// The contract of PKCS#11 for a parameter.
unsafe fn content<'a>(parameter: Parameter, pointer: *const u8, len: u64) -> Content<'a> {
    let unread = Content::Unread(!pointer.is_null(), len);
    if pointer.is_null() {
        return unread;
    }
    match parameter.layout(len) {
        // SAFETY: the caller's promise. The struct has this length.
        Some(layout) => Content::Struct(unsafe { Image::capture(layout, pointer, 1) }),
        None if parameter.is_plain(len) => {
            // SAFETY: the caller's promise.
            Content::Plain(Bytes::new(unsafe { &*slice_from_raw_parts(pointer, len as usize) }))
        }
        None => unread,
    }
}

/// # Safety
///
/// The contract of PKCS#11 for a parameter. `content` was read from it.
unsafe fn restore(
    content: &Content<'_>,
    pointer: *mut u8,
    outputs: &mut Outputs<'_, '_>,
) -> Result<(), Malformed> {
    let Content::Struct(image) = content else { return Ok(()) };
    // The layout of an image that this process made: by its size, which the agent uses too.
    let layout = image.layout.ok_or(Malformed)?;
    // SAFETY: the caller's promise.
    unsafe { image.restore(layout, pointer, outputs) }
}

/// Attributes: those of a template, or those of `C_GetAttributeValue`.
pub struct Template(pub *mut CK_ATTRIBUTE, pub u64, pub &'static Layout);

impl Sent for Template {
    unsafe fn argument<'a>(&'a self, _: &dyn Parameters) -> Argument<'a> {
        if self.0.is_null() || self.1 > MAX_ATTRIBUTES {
            return Argument::Template(Input::Absent(self.1), None);
        }
        // SAFETY: the caller's promise.
        let image = unsafe { Image::capture(self.2, self.0.cast(), self.1) };
        Argument::Template(Input::Absent(self.1), Some(image))
    }

    unsafe fn receive(
        &self,
        sent: &Argument<'_>,
        _: CK_RV,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let Argument::Template(_, Some(image)) = sent else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { image.restore(self.2, self.0.cast(), outputs) }
    }
}

/// The arguments of a call in the agent. Each kind takes the next one.
pub type Arguments<'a, 'b> = &'b mut std::slice::Iter<'a, Argument<'a>>;

/// Takes a number.
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
    /// Takes a pointer.
    pub fn take(arguments: Arguments<'_, '_>) -> Result<Self, Malformed> {
        let Some(Argument::Pointer(given)) = arguments.next() else { return Err(Malformed) };
        let place = vec![0; size_of::<T>()].into();
        Ok(Self { given: *given, place, value: std::marker::PhantomData })
    }

    /// Returns the pointer.
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

/// Bytes for the C interface.
pub struct Given<'a>(Input<'a>);

impl<'a> Given<'a> {
    /// Takes bytes.
    pub fn take(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        match arguments.next() {
            Some(Argument::Input(input)) => Ok(Self(*input)),
            _ => Err(Malformed),
        }
    }

    /// Takes bytes of this length, or `NULL`.
    pub fn take_text(arguments: Arguments<'a, '_>, len: usize) -> Result<Self, Malformed> {
        let given = Self::take(arguments)?;
        match given.0 {
            Input::Data(bytes) if bytes.len() != len => Err(Malformed),
            _ => Ok(given),
        }
    }

    /// Takes bytes that end with NUL or have 32 bytes, or `NULL`.
    pub fn take_name(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        let given = Self::take(arguments)?;
        match given.0 {
            Input::Data(bytes) if bytes.last() != Some(&0) && bytes.len() < 32 => Err(Malformed),
            _ => Ok(given),
        }
    }

    /// Returns the pointer. The C interface only reads there.
    pub fn pointer(&self) -> *mut u8 {
        match self.0 {
            Input::Absent(_) => null_mut(),
            Input::Data(bytes) if bytes.is_empty() => NonNull::dangling().as_ptr(),
            Input::Data(bytes) => bytes.as_ptr().cast_mut(),
        }
    }

    /// Returns the length that the application passed.
    pub fn length(&self) -> u64 {
        match self.0 {
            Input::Absent(len) => len,
            Input::Data(bytes) => bytes.len() as u64,
        }
    }
}

/// A buffer for the C interface.
pub struct Buffer {
    given: bool,
    has_len: bool,
    len: CK_ULONG,
    /// The bytes of one item.
    item: u64,
    bytes: Vec<u8>,
}

impl Buffer {
    /// Takes a buffer for items of this number of bytes.
    pub fn take(arguments: Arguments<'_, '_>, item: u64) -> Result<Self, Malformed> {
        let Some(Argument::Output(given, room)) = arguments.next() else { return Err(Malformed) };
        let len = room.unwrap_or(0).min(MAX_ROOM / item);
        // An impossible length stays one, so that it is refused.
        let len = if room.is_some_and(|room| isize::try_from(room).is_err()) { u64::MAX } else { len };
        let bytes = if *given && len != u64::MAX { vec![0; (len * item) as usize] } else { Vec::new() };
        Ok(Self { given: *given, has_len: room.is_some(), len, item, bytes })
    }

    /// Returns the pointer to the buffer.
    pub fn pointer<T>(&mut self) -> *mut T {
        match self.given {
            false => null_mut(),
            true if self.bytes.is_empty() => NonNull::<u64>::dangling().as_ptr().cast(),
            true => self.bytes.as_mut_ptr().cast(),
        }
    }

    /// Returns the pointer to the length.
    pub fn len_pointer(&mut self) -> *mut CK_ULONG {
        if self.has_len { &raw mut self.len } else { null_mut() }
    }

    /// Returns the room.
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

/// Returns the bytes of a number.
fn number_bytes(number: &CK_ULONG) -> &[u8] {
    // SAFETY: an integer of 8 bytes.
    unsafe { &*slice_from_raw_parts(std::ptr::from_ref(number).cast(), size_of::<CK_ULONG>()) }
}

/// A parameter for the C interface.
enum Rebuilt<'a> {
    /// `NULL` with a length, or zeros in place of what is not read.
    Unread(Vec<u8>, u64),
    Plain(&'a [u8]),
    Struct(Memory, u64),
}

impl<'a> Rebuilt<'a> {
    fn build(parameter: Parameter, content: &Content<'a>) -> Result<Self, Malformed> {
        match content {
            Content::Unread(given, len) => {
                let zeros = if *given && *len <= MAX_PLAIN { vec![0; *len as usize] } else { Vec::new() };
                Ok(Self::Unread(zeros, *len))
            }
            Content::Plain(bytes) if parameter.is_plain(bytes.len() as u64) => Ok(Self::Plain(bytes)),
            Content::Plain(_) => Err(Malformed),
            Content::Struct(image) => {
                let len = image.structs.len() as u64;
                let layout = parameter.layout(len).ok_or(Malformed)?;
                Ok(Self::Struct(Memory::build(layout, 1, image)?, len))
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

impl Parameter {
    /// Returns whether a parameter of this length has no pointer.
    fn is_plain(self, len: u64) -> bool {
        self == Self::Plain && len <= MAX_PLAIN
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
        parameters: &dyn Parameters,
        fixed: Option<Parameter>,
    ) -> Result<Self, Malformed> {
        let Some(Argument::Mechanism(mechanism, content)) = arguments.next() else { return Err(Malformed) };
        let known = mechanism.map_or(Parameter::None, |mechanism| parameters.parameter(mechanism));
        let parameter = match (fixed, known) {
            (Some(parameter), Parameter::Gcm | Parameter::Ccm | Parameter::Poly1305) => parameter,
            (Some(_), _) => Parameter::None,
            (None, known) => known,
        };
        let mut parameter = Rebuilt::build(parameter, content)?;
        let mechanism = mechanism.map(|mechanism| CK_MECHANISM {
            mechanism,
            pParameter: parameter.pointer().cast(),
            ulParameterLen: parameter.len(),
        });
        Ok(Self { mechanism, parameter })
    }

    /// Returns the number of the mechanism.
    pub fn mechanism(&self) -> Option<CK_MECHANISM_TYPE> {
        self.mechanism.as_ref().map(|mechanism| mechanism.mechanism)
    }

    /// Returns the pointer.
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
    /// Takes a parameter.
    pub fn take(arguments: Arguments<'a, '_>) -> Result<Self, Malformed> {
        match arguments.next() {
            Some(Argument::Parameter(content)) => Rebuilt::build(Parameter::Message, content).map(Self),
            _ => Err(Malformed),
        }
    }

    /// Returns the pointer.
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
pub struct TemplateGiven {
    memory: Option<Memory>,
    count: u64,
}

impl TemplateGiven {
    /// Takes the attributes of a template.
    pub fn take(arguments: Arguments<'_, '_>) -> Result<Self, Malformed> {
        Self::take_with(arguments, &ATTRIBUTE)
    }

    /// Takes the attributes of `C_GetAttributeValue`.
    pub fn take_read(arguments: Arguments<'_, '_>) -> Result<Self, Malformed> {
        Self::take_with(arguments, &ATTRIBUTE_READ)
    }

    fn take_with(arguments: Arguments<'_, '_>, layout: &'static Layout) -> Result<Self, Malformed> {
        let Some(Argument::Template(Input::Absent(count), image)) = arguments.next() else {
            return Err(Malformed);
        };
        if image.is_some() && *count > MAX_ATTRIBUTES {
            return Err(Malformed);
        }
        let memory = image.as_ref().map(|image| Memory::build(layout, *count, image)).transpose()?;
        Ok(Self { memory, count: *count })
    }

    /// Returns the pointer.
    pub fn pointer(&mut self) -> *mut CK_ATTRIBUTE {
        self.memory.as_mut().map_or(null_mut(), |memory| memory.address().cast())
    }

    /// Returns the number of attributes.
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

/// The layout of the attributes of a template.
pub const TEMPLATE: &Layout = &ATTRIBUTE;
/// The layout of the attributes of `C_GetAttributeValue`.
pub const VALUES: &Layout = &ATTRIBUTE_READ;
