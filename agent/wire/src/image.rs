//! The copy of a C struct with the memory that it points to.
//!
//! The client makes an [`Image`] of the application's struct. The agent builds a [`Memory`] from
//! it, whose pointers are all its own, and calls the function of the C interface with it. What the
//! function wrote travels back as a list of byte strings, in the order of the pointers.

use std::borrow::Cow;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts};

use cryptoki_sys::*;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use crate::layout::*;

/// A message that does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Structs of one layout, one after the other, without their pointers, and what they point to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Image<'a> {
    /// The bytes of the structs, with zeros for the pointers.
    #[serde(borrow)]
    pub structs: Cow<'a, Bytes>,
    /// What each pointer of each struct points to.
    #[serde(borrow)]
    pub blocks: Vec<Block<'a>>,
    /// The layout in the process that captured the structs. It does not travel.
    #[serde(skip)]
    pub layout: Option<&'static Layout>,
}

/// What a pointer points to.
#[derive(Debug, Serialize, Deserialize)]
pub enum Block<'a> {
    /// Nothing: the pointer is `NULL`, or the function refuses the length without reading.
    Nothing,
    /// Bytes.
    Bytes(#[serde(borrow)] &'a Bytes),
    /// Room for bytes. The struct has their number.
    Room,
    /// Structs.
    Structs(#[serde(borrow)] Image<'a>),
}

/// A walk along pointers, with the limits that a hostile application meets.
struct Walk {
    depth: usize,
    structs: u64,
    /// The bytes of room that the agent still makes for outputs.
    room: u64,
}

impl Walk {
    fn new() -> Self {
        // More than a template and 64 fields, and fewer than would hurt.
        Self { depth: MAX_DEPTH, structs: 2 * MAX_ATTRIBUTES, room: MAX_ROOM }
    }

    /// Counts structs that are one level deeper. Returns `false` if they are too many.
    fn enter(&mut self, count: u64) -> bool {
        let fits = self.depth > 0 && count <= self.structs;
        if fits {
            self.depth -= 1;
            self.structs -= count;
        }
        fits
    }

    fn leave(&mut self) {
        self.depth += 1;
    }
}

/// Reads a `CK_ULONG` of a struct.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The bytes that a pointer points to, by the struct that contains it.
enum Extent {
    Bytes(u64, Flow),
    Structs(u64, &'static Layout),
    /// The function refuses the struct without following the pointer.
    Refused,
}

/// Returns how much a pointer of a struct points to. `owner` is the struct that points to this one,
/// and `behind` gives the number that another pointer of the struct points to.
fn extent(pointer: &Pointer, bytes: &[u8], owner: &[u8], behind: impl Fn(usize) -> u64) -> Extent {
    match &pointer.target {
        Target::Bytes { len, limit, flow } => {
            let len = match len {
                Len::Fixed(len) => *len,
                Len::Field(at) | Len::Password(at) => number(bytes, *at),
                Len::Bits(at) => number(bytes, *at) / 8,
                Len::BitsOfOwner(at) => number(owner, *at) / 8,
                Len::Behind(index) => behind(*index),
                Len::Poly1305Nonce(at) => match number(bytes, *at) {
                    12 | 96 => 12,
                    _ => return Extent::Refused,
                },
                Len::HkdfSalt => {
                    let field = std::mem::offset_of!(CK_HKDF_PARAMS, ulSaltType);
                    let read = bytes[0] != 0 && number(bytes, field) == CKF_HKDF_SALT_DATA;
                    if read { number(bytes, std::mem::offset_of!(CK_HKDF_PARAMS, ulSaltLen)) } else { 0 }
                }
                Len::HkdfInfo => {
                    let read = bytes[1] != 0;
                    if read { number(bytes, std::mem::offset_of!(CK_HKDF_PARAMS, ulInfoLen)) } else { 0 }
                }
            };
            if len <= *limit { Extent::Bytes(len, *flow) } else { Extent::Refused }
        }
        Target::Structs { layout, count } => match count {
            Count::One => Extent::Structs(1, layout),
            Count::Field(at, limit) if number(bytes, *at) <= *limit => {
                Extent::Structs(number(bytes, *at), layout)
            }
            Count::Field(..) => Extent::Refused,
        },
        Target::Value(flow) => value_extent(bytes, *flow),
    }
}

/// The same for the value of an attribute.
fn value_extent(attribute: &[u8], flow: Flow) -> Extent {
    let len = number(attribute, std::mem::offset_of!(CK_ATTRIBUTE, ulValueLen));
    // An earlier call may have left this. It is no length.
    if flow == Flow::Out && len == CK_UNAVAILABLE_INFORMATION {
        return Extent::Bytes(0, flow);
    }
    let size = size_of::<CK_ATTRIBUTE>() as u64;
    let nested = holds_attributes(number(attribute, 0));
    match flow {
        Flow::Out if nested => Extent::Structs((len / size).min(MAX_ATTRIBUTES), &ATTRIBUTE_READ),
        Flow::Out => Extent::Bytes(len.min(MAX_ROOM), flow),
        _ if nested && len.is_multiple_of(size) => Extent::Structs(len / size, &ATTRIBUTE),
        _ if nested || len > MAX_ROOM => Extent::Refused,
        _ => Extent::Bytes(len, flow),
    }
}

impl<'a> Image<'a> {
    /// Copies structs of the application.
    ///
    /// # Safety
    ///
    /// `first` is readable for `count` structs of this layout, or `count` is 0. The memory that
    /// they point to is readable during `'a`.
    pub unsafe fn capture(layout: &'static Layout, first: *const u8, count: u64) -> Self {
        let mut walk = Walk::new();
        // SAFETY: the caller's promise.
        unsafe { Self::capture_at(layout, first, count, &[], &mut walk) }
    }

    /// # Safety
    ///
    /// As for [`capture`](Self::capture).
    unsafe fn capture_at(
        layout: &'static Layout,
        first: *const u8,
        count: u64,
        owner: &[u8],
        walk: &mut Walk,
    ) -> Self {
        let len = layout.size * count as usize;
        let mut structs = vec![0; len];
        if len > 0 {
            // SAFETY: the caller's promise.
            unsafe { first.copy_to_nonoverlapping(structs.as_mut_ptr(), len) };
        }
        let mut blocks = Vec::with_capacity(count as usize * layout.pointers.len());
        for at in (0..len).step_by(layout.size) {
            let start = blocks.len();
            for pointer in layout.pointers {
                // SAFETY: inside the structs, by the layout. A pointer is valid for every 8 bytes.
                let to = unsafe { first.add(at + pointer.at).cast::<*const u8>().read_unaligned() };
                let bytes = &mut structs[at..at + layout.size];
                bytes[pointer.at..pointer.at + 8].fill(0);
                if let Target::Bytes { len: Len::Password(field), .. } = &pointer.target {
                    // SAFETY: the caller's promise.
                    unsafe { resolve_password(bytes, *field) };
                }
                let behind = |index: usize| match blocks.get(start + index) {
                    Some(Block::Bytes(bytes)) => number(bytes, 0),
                    _ => 0,
                };
                let block = match extent(pointer, bytes, owner, behind) {
                    _ if to.is_null() => Block::Nothing,
                    Extent::Refused => Block::Nothing,
                    Extent::Bytes(_, Flow::Out) => Block::Room,
                    Extent::Bytes(len, _) => {
                        // SAFETY: readable for this length by the caller's promise.
                        Block::Bytes(Bytes::new(unsafe { &*slice_from_raw_parts(to, len as usize) }))
                    }
                    Extent::Structs(count, layout) => {
                        if walk.enter(count) {
                            // SAFETY: the caller's promise.
                            let inner = unsafe { Self::capture_at(layout, to, count, bytes, walk) };
                            walk.leave();
                            Block::Structs(inner)
                        } else {
                            Block::Nothing
                        }
                    }
                };
                blocks.push(block);
            }
        }
        Self { structs: Cow::Owned(serde_bytes::ByteBuf::from(structs)), blocks, layout: Some(layout) }
    }

    /// Copies what the function wrote to the structs of the application. Unchanged memory is not
    /// written, because it may be constant.
    ///
    /// # Safety
    ///
    /// `first` points to the structs that this image was captured from. They and the memory that
    /// they point to are writable where the function writes.
    pub unsafe fn restore(
        &self,
        layout: &'static Layout,
        first: *mut u8,
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        // SAFETY: the caller's promise.
        unsafe { self.restore_at(layout, first, &[], outputs) }
    }

    /// # Safety
    ///
    /// As for [`restore`](Self::restore).
    unsafe fn restore_at(
        &self,
        layout: &'static Layout,
        first: *mut u8,
        owner: &[u8],
        outputs: &mut Outputs<'_, '_>,
    ) -> Result<(), Malformed> {
        let mut blocks = self.blocks.iter();
        for (index, bytes) in self.structs.chunks_exact(layout.size).enumerate() {
            // SAFETY: inside the structs of the application.
            let place = unsafe { first.add(index * layout.size) };
            for (at, len) in layout.written {
                // SAFETY: a field of the struct.
                unsafe { put_changed(place.add(*at), outputs.next(*len)?) };
            }
            let start = index * layout.pointers.len();
            for pointer in layout.pointers {
                // SAFETY: as above.
                let to = unsafe { place.add(pointer.at).cast::<*mut u8>().read_unaligned() };
                let behind = |index: usize| match self.blocks.get(start + index) {
                    Some(Block::Bytes(bytes)) => number(bytes, 0),
                    _ => 0,
                };
                match (blocks.next().ok_or(Malformed)?, extent(pointer, bytes, owner, behind)) {
                    (Block::Room, Extent::Bytes(room, Flow::Out))
                    | (Block::Bytes(_), Extent::Bytes(room, Flow::Both)) => {
                        // SAFETY: the application's memory has this room.
                        unsafe { put_changed(to, outputs.at_most(room)?) };
                    }
                    (Block::Structs(inner), Extent::Structs(_, layout)) => {
                        // SAFETY: the caller's promise.
                        unsafe { inner.restore_at(layout, to, bytes, outputs) }?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The first address that no process has, as in the C interface.
const END_OF_ADDRESSES: u64 = if cfg!(target_arch = "aarch64") { 1 << 48 } else { 1 << 47 };

/// Replaces the address of a password's length by the length. What is neither becomes a number that
/// every function refuses.
///
/// # Safety
///
/// The address is readable.
unsafe fn resolve_password(bytes: &mut [u8], field: usize) {
    let given = number(bytes, field);
    if given < PASSWORD_LIMIT {
        return;
    }
    let place = std::ptr::with_exposed_provenance::<u64>(given as usize);
    let is_address = place.is_aligned() && given < END_OF_ADDRESSES;
    // SAFETY: an aligned address by the application's promise.
    let len = if is_address { unsafe { place.read() } } else { u64::MAX };
    let len = if len < PASSWORD_LIMIT { len } else { u64::MAX };
    bytes[field..field + 8].copy_from_slice(&len.to_ne_bytes());
}

/// # Safety
///
/// `place` is readable for these bytes, and writable if they differ.
unsafe fn put_changed(place: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's promise. The memory is not the slice's: that one is this library's.
    unsafe {
        if !bytes.is_empty() && *slice_from_raw_parts(place, bytes.len()) != *bytes {
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

/// The byte strings that a function wrote, in the order in which its arguments take them.
pub struct Outputs<'a, 'b>(pub &'b mut std::slice::Iter<'a, &'a Bytes>);

impl<'a> Outputs<'a, '_> {
    /// Returns the next string, of this length.
    pub fn next(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.any()?;
        if bytes.len() == len { Ok(bytes) } else { Err(Malformed) }
    }

    /// Returns the next string, of at most this length.
    pub fn at_most(&mut self, room: u64) -> Result<&'a [u8], Malformed> {
        let bytes = self.any()?;
        if bytes.len() as u64 <= room { Ok(bytes) } else { Err(Malformed) }
    }

    fn any(&mut self) -> Result<&'a [u8], Malformed> {
        self.0.next().map(|bytes| &bytes[..]).ok_or(Malformed)
    }
}

/// Structs that the agent built from an image. All their pointers point to memory of this value, or
/// are `NULL`.
pub struct Memory {
    layout: &'static Layout,
    structs: Vec<u8>,
    parts: Vec<Part>,
}

enum Part {
    Nothing,
    Bytes(Vec<u8>, Flow),
    Structs(Memory),
}

impl Memory {
    /// Builds structs. Fails if the image does not have this number of them, or has other lengths
    /// than its structs say.
    pub fn build(layout: &'static Layout, count: u64, image: &Image<'_>) -> Result<Self, Malformed> {
        Self::build_at(layout, count, image, &[], &mut Walk::new())
    }

    fn build_at(
        layout: &'static Layout,
        count: u64,
        image: &Image<'_>,
        owner: &[u8],
        walk: &mut Walk,
    ) -> Result<Self, Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let whole = Some(image.structs.len()) == count.checked_mul(layout.size);
        if !whole || image.blocks.len() != count * layout.pointers.len() {
            return Err(Malformed);
        }
        let mut structs = image.structs.to_vec();
        let mut parts: Vec<Part> = Vec::with_capacity(image.blocks.len());
        let mut blocks = image.blocks.iter();
        for at in (0..structs.len()).step_by(layout.size) {
            let start = parts.len();
            for pointer in layout.pointers {
                let bytes = &mut structs[at..at + layout.size];
                if let Target::Bytes { len: Len::Password(field), .. } = &pointer.target
                    && number(bytes, *field) >= PASSWORD_LIMIT
                {
                    // The function would take it for an address.
                    bytes[*field..*field + 8].fill(0xff);
                }
                let behind = |index: usize| match parts.get(start + index) {
                    Some(Part::Bytes(bytes, _)) => number(bytes, 0),
                    _ => 0,
                };
                let mut part = match (blocks.next().ok_or(Malformed)?, extent(pointer, bytes, owner, behind))
                {
                    (Block::Nothing, _) => Part::Nothing,
                    (Block::Bytes(given), Extent::Bytes(len, flow @ (Flow::In | Flow::Both)))
                        if given.len() as u64 == len =>
                    {
                        Part::Bytes(given.to_vec(), flow)
                    }
                    (Block::Room, Extent::Bytes(len, Flow::Out)) => {
                        // All rooms of a call together have a limit. What does not fit is reported
                        // as too long.
                        let len = len.min(walk.room);
                        walk.room -= len;
                        Part::Bytes(vec![0; len as usize], Flow::Out)
                    }
                    (Block::Structs(inner), Extent::Structs(count, layout)) if walk.enter(count) => {
                        let inner = Self::build_at(layout, count, inner, bytes, walk)?;
                        walk.leave();
                        Part::Structs(inner)
                    }
                    _ => return Err(Malformed),
                };
                if let (Part::Bytes(room, Flow::Out), Target::Value(_)) = (&part, &pointer.target) {
                    // The room is shorter than an application with a very long buffer says.
                    let field = std::mem::offset_of!(CK_ATTRIBUTE, ulValueLen);
                    if number(bytes, field) != CK_UNAVAILABLE_INFORMATION {
                        bytes[field..field + 8].copy_from_slice(&(room.len() as u64).to_ne_bytes());
                    }
                }
                let address = part.address();
                // SAFETY: inside the structs, by the layout.
                unsafe {
                    structs.as_mut_ptr().add(at + pointer.at).cast::<*mut u8>().write_unaligned(address);
                }
                parts.push(part);
            }
        }
        Ok(Self { layout, structs, parts })
    }

    /// Returns the address of the structs.
    pub fn address(&mut self) -> *mut u8 {
        if self.structs.is_empty() {
            NonNull::<u64>::dangling().as_ptr().cast()
        } else {
            self.structs.as_mut_ptr()
        }
    }

    /// Adds what a function wrote to `outputs`.
    pub fn report<'a>(&'a self, outputs: &mut Vec<&'a Bytes>) {
        let mut parts = self.parts.iter();
        for (index, bytes) in self.structs.chunks_exact(self.layout.size).enumerate() {
            for (at, len) in self.layout.written {
                outputs.push(Bytes::new(&bytes[*at..at + len]));
            }
            let start = index * self.layout.pointers.len();
            for (pointer, part) in self.layout.pointers.iter().zip(&mut parts) {
                match part {
                    Part::Bytes(written, Flow::Both) => outputs.push(Bytes::new(written)),
                    Part::Bytes(written, Flow::Out) => {
                        let len = self.written_len(pointer, bytes, start);
                        outputs.push(Bytes::new(&written[..written.len().min(len)]));
                    }
                    Part::Structs(inner) => inner.report(outputs),
                    Part::Nothing | Part::Bytes(_, Flow::In) => {}
                }
            }
        }
    }

    /// Returns the number of bytes that a function wrote behind a pointer.
    fn written_len(&self, pointer: &Pointer, bytes: &[u8], start: usize) -> usize {
        let len = match &pointer.target {
            Target::Value(_) => number(bytes, std::mem::offset_of!(CK_ATTRIBUTE, ulValueLen)),
            Target::Bytes { len: Len::Behind(index), .. } => match self.parts.get(start + index) {
                Some(Part::Bytes(bytes, _)) => number(bytes, 0),
                _ => 0,
            },
            _ => return usize::MAX,
        };
        if len == CK_UNAVAILABLE_INFORMATION { 0 } else { len as usize }
    }
}

impl Part {
    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Nothing => null_mut(),
            Self::Bytes(bytes, _) if bytes.is_empty() => NonNull::<u64>::dangling().as_ptr().cast(),
            Self::Bytes(bytes, _) => bytes.as_mut_ptr(),
            Self::Structs(memory) => memory.address(),
        }
    }
}
