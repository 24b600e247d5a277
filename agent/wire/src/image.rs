//! The copy of a C struct with the memory that it points to.
//!
//! The client makes an [`Image`] of the application's struct (`agent/client/src/capture.rs`). The
//! agent builds the same struct from it, whose pointers are all its own (`agent/src/memory.rs`),
//! and calls the function of the C interface with it. What the function wrote travels back as a
//! list of byte strings, in the order of the pointers. Both walk along the pointers of a
//! [`Layout`], and [`extent`] says how far.

use std::borrow::Cow;

use cryptoki_sys::{CK_ATTRIBUTE, CK_UNAVAILABLE_INFORMATION, CKF_HKDF_SALT_DATA};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use crate::layout::{
    ATTRIBUTE, ATTRIBUTE_LEN, ATTRIBUTE_READ, Count, Flow, HKDF_INFO_LEN, HKDF_SALT_LEN, HKDF_SALT_TYPE,
    Layout, Len, MAX_ATTRIBUTES, MAX_DEPTH, MAX_ROOM, Pointer, TEMPLATES, Target,
};

/// A message that does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Malformed {
    /// Fails if the condition is false.
    #[inline]
    pub const fn unless(condition: bool) -> Result<(), Self> {
        if condition { Ok(()) } else { Err(Self) }
    }
}

/// Structs of one layout, one after the other, with what they point to: [`Item`]s, one after the
/// other. The first one has the structs; an item for each of their pointers follows, struct by
/// struct. After [`Item::Structs`], the items of its own pointers come first.
///
/// The agent reads the items while it walks along the pointers of the layout, so what a peer sends
/// is never deeper than [`MAX_DEPTH`] and allocates nothing by itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Image<'a>(#[serde(borrow, with = "serde_bytes")] pub Cow<'a, Bytes>);

/// What a pointer points to.
#[derive(Debug, Serialize, Deserialize)]
pub enum Item<'a> {
    /// Nothing: the pointer is `NULL`, or the function refuses the length without reading.
    Nothing,
    /// Bytes.
    Bytes(#[serde(borrow)] &'a Bytes),
    /// Room for bytes. The struct has their number.
    Room,
    /// Structs, with zeros for their pointers.
    Structs(#[serde(borrow)] &'a Bytes),
}

impl<'a> Item<'a> {
    /// Takes the next item of an image.
    pub fn take(items: &mut &'a [u8]) -> Result<Self, Malformed> {
        crate::take(items)
    }

    /// Takes the structs with which an image, or a part of it, begins.
    pub fn take_structs(items: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
        match Self::take(items)? {
            Self::Structs(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    /// Appends the item to an image.
    pub fn append(&self, image: &mut Vec<u8>) -> Result<(), crate::Unfit> {
        crate::append(self, image)
    }
}

/// A walk along pointers, with the limits that a hostile application meets.
pub struct Walk {
    depth: usize,
    structs: u64,
    /// The bytes of room that the agent still makes for outputs.
    pub room: u64,
}

impl Default for Walk {
    fn default() -> Self {
        // More than a template and 64 fields, and fewer than would hurt.
        Self { depth: MAX_DEPTH, structs: 2 * MAX_ATTRIBUTES, room: MAX_ROOM }
    }
}

impl Walk {
    /// Counts structs that are one level deeper. Returns `false` if they are too many.
    pub fn enter(&mut self, count: u64) -> bool {
        let fits = self.depth > 0 && count <= self.structs;
        if fits {
            self.depth -= 1;
            self.structs -= count;
        }
        fits
    }

    /// Goes back to the level above.
    pub fn leave(&mut self) {
        self.depth += 1;
    }
}

/// Reads a `CK_ULONG` of a struct. 0 behind its end.
pub fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The bytes that a pointer points to, by the struct that contains it.
pub enum Extent {
    /// Bytes: their number.
    Bytes(u64, Flow),
    /// Structs: their number.
    Structs(u64, &'static Layout),
    /// The function refuses the struct without following the pointer.
    Refused,
}

/// The numbers behind the pointers of one struct, by their positions: [`Len::Behind`] names one.
#[derive(Default)]
pub struct Behind([u64; 4], usize);

impl Behind {
    /// Adds the number at the start of the bytes behind the next pointer. 0 if there are none.
    pub fn push(&mut self, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(self.1) {
            *place = number(bytes, 0);
        }
        self.1 += 1;
    }
}

/// Returns how much a pointer of a struct points to. `owner` is the struct that points to this one,
/// and `behind` has the numbers that the pointers before it point to.
pub fn extent(pointer: &Pointer, bytes: &[u8], owner: &[u8], behind: &Behind) -> Extent {
    match &pointer.target {
        Target::Bytes { len, limit, flow } => {
            let len = match len {
                Len::Fixed(len) => *len,
                Len::Field(at) | Len::Password(at) => number(bytes, *at),
                Len::Bits(at) => number(bytes, *at) / 8,
                Len::BitsOfOwner(at) => number(owner, *at) / 8,
                Len::Behind(index) => behind.0.get(*index).copied().unwrap_or(0),
                Len::Poly1305Nonce(at) => match number(bytes, *at) {
                    12 | 96 => 12,
                    _ => return Extent::Refused,
                },
                Len::HkdfSalt => {
                    let read = bytes[0] != 0 && number(bytes, HKDF_SALT_TYPE) == CKF_HKDF_SALT_DATA;
                    if read { number(bytes, HKDF_SALT_LEN) } else { 0 }
                }
                Len::HkdfInfo => {
                    let read = bytes[1] != 0;
                    if read { number(bytes, HKDF_INFO_LEN) } else { 0 }
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

fn value_extent(attribute: &[u8], flow: Flow) -> Extent {
    let len = number(attribute, ATTRIBUTE_LEN);
    // An earlier call may have left this. It is no length.
    if flow == Flow::Out && len == CK_UNAVAILABLE_INFORMATION {
        return Extent::Bytes(0, flow);
    }
    let size = size_of::<CK_ATTRIBUTE>() as u64;
    let nested = TEMPLATES.contains(&number(attribute, 0));
    match flow {
        Flow::Out if nested => Extent::Structs((len / size).min(MAX_ATTRIBUTES), &ATTRIBUTE_READ),
        Flow::Out => Extent::Bytes(len.min(MAX_ROOM), flow),
        _ if nested && len.is_multiple_of(size) => Extent::Structs(len / size, &ATTRIBUTE),
        _ if nested || len > MAX_ROOM => Extent::Refused,
        _ => Extent::Bytes(len, flow),
    }
}

/// What a function wrote behind the pointer of an attribute whose room was taken for attributes.
pub enum Filled<'a> {
    /// This number of attributes, from the first one on.
    Attributes(usize),
    /// Bytes: the types of attributes in an attribute are those of the object, not those of the
    /// application.
    Bytes(&'a [u8]),
}

/// Returns what a function wrote to `room`, by the type and the length of the attribute after it.
pub fn filled(kind: u64, len: u64, room: &[u8]) -> Filled<'_> {
    let written = usize::try_from(len).ok().and_then(|len| room.get(..len)).unwrap_or(&[]);
    if written.is_empty() || TEMPLATES.contains(&kind) {
        Filled::Attributes(written.len() / size_of::<CK_ATTRIBUTE>())
    } else {
        Filled::Bytes(written)
    }
}
