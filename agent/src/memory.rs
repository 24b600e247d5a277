//! C structs that the agent builds from an image, for a call of the C interface.

use std::ptr::null_mut;

use cryptoki_sys::CK_UNAVAILABLE_INFORMATION;
use jeton_agent_wire::Malformed;
use jeton_agent_wire::image::{Behind, Extent, Filled, Image, Item, Walk, extent, filled, number};
use jeton_agent_wire::layout::{
    ATTRIBUTE_LEN, ATTRIBUTE_TYPE, Count, Flow, Layout, Len, PASSWORD_LIMIT, Pointer, Target,
};
use serde_bytes::Bytes;

use crate::budget::{Budget, Unserved};

/// A pointer for the C interface, and the number of bytes behind it. The two are made together from
/// memory of the agent, whatever the message says about its length.
pub struct Span {
    pub pointer: *mut u8,
    pub len: u64,
}

impl Span {
    /// `NULL`. Functions refuse it unless the length is 0. A function that followed it would meet
    /// addresses at which no process has memory: longer lengths are cut.
    pub fn null(len: u64) -> Self {
        Self { pointer: null_mut(), len: len.min(PASSWORD_LIMIT - 1) }
    }

    /// Memory that the function only reads.
    pub fn read(bytes: &[u8]) -> Self {
        Self { pointer: bytes.as_ptr().cast_mut(), len: bytes.len() as u64 }
    }

    /// Memory that the function may write.
    pub fn written(bytes: &mut [u8]) -> Self {
        Self { pointer: bytes.as_mut_ptr(), len: bytes.len() as u64 }
    }
}

/// The rooms for the values of attributes.
pub enum Rooms<'a> {
    /// As the message says.
    AsSaid,
    /// None: the function says how long the values are.
    Null,
    /// No longer than the values are, in the order of the rooms.
    Needed(std::slice::Iter<'a, u64>),
}

impl Rooms<'_> {
    fn needed(&mut self) -> u64 {
        match self {
            Self::Needed(lengths) => lengths.next().copied().unwrap_or(0),
            _ => u64::MAX,
        }
    }
}

/// Structs that the agent built. All their pointers point to memory of this value or to the
/// message, with the length of this memory beside them, or are `NULL`.
pub struct Memory<'a> {
    layout: &'static Layout,
    structs: Vec<u8>,
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Nothing,
    /// What the function only reads: a part of the message.
    Read(&'a [u8]),
    /// What it may write.
    Written(Vec<u8>, Flow),
    Structs(Memory<'a>),
}

impl<'a> Memory<'a> {
    /// Builds structs. Fails if the image does not have this number of them, or has other lengths
    /// than its structs say.
    pub fn build(
        layout: &'static Layout,
        count: u64,
        image: &'a Image<'_>,
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        Self::build_with(Rooms::AsSaid, layout, count, image, budget)
    }

    /// Builds structs with these rooms for values.
    pub fn build_with(
        rooms: Rooms<'_>,
        layout: &'static Layout,
        count: u64,
        image: &'a Image<'_>,
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        let mut items = &image.0[..];
        let structs = Item::take_structs(&mut items)?;
        let (walk, rooms) = (&mut Walk::default(), &mut { rooms });
        let built = Self::build_at(layout, count, structs, &mut items, &[], (walk, rooms), budget)?;
        if items.is_empty() { Ok(built) } else { Err(Malformed.into()) }
    }

    fn build_at(
        layout: &'static Layout,
        count: u64,
        given: &[u8],
        items: &mut &'a [u8],
        owner: &[u8],
        (walk, rooms): (&mut Walk, &mut Rooms<'_>),
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        Malformed::unless(Some(given.len()) == count.checked_mul(layout.size))?;
        budget.take(given.len() + count * layout.pointers.len() * size_of::<Part<'_>>())?;
        let mut structs = given.to_vec();
        let mut parts = Vec::with_capacity(count * layout.pointers.len());
        for at in (0..structs.len()).step_by(layout.size) {
            let (mut behind, first) = (Behind::default(), parts.len());
            for pointer in layout.pointers {
                let bytes = &structs[at..at + layout.size];
                let mut part = match (Item::take(items)?, extent(pointer, bytes, owner, &behind)) {
                    (Item::Nothing, _) => {
                        rooms.needed();
                        Part::Nothing
                    }
                    (Item::Bytes(given), Extent::Bytes(len, flow)) if given.len() as u64 == len => match flow
                    {
                        Flow::In => Part::Read(given),
                        Flow::Both => {
                            budget.take(2 * given.len())?;
                            Part::Written(given.to_vec(), flow)
                        }
                        Flow::Out => return Err(Malformed.into()),
                    },
                    (Item::Room, Extent::Bytes(..)) if matches!(rooms, Rooms::Null) => Part::Nothing,
                    (Item::Room, Extent::Bytes(len, Flow::Out)) => {
                        // All rooms of a call together have a limit. What does not fit is reported
                        // as too long.
                        let len = len.min(walk.room).min(rooms.needed());
                        walk.room -= len;
                        // The answer has a copy.
                        budget.take(2 * len as usize)?;
                        Part::Written(vec![0; len as usize], Flow::Out)
                    }
                    (Item::Structs(inner), Extent::Structs(count, layout)) if walk.enter(count) => {
                        let inner =
                            Self::build_at(layout, count, inner, items, bytes, (walk, rooms), budget)?;
                        walk.leave();
                        Part::Structs(inner)
                    }
                    _ => return Err(Malformed.into()),
                };
                behind.push(part.bytes());
                set(&mut structs[at..at + layout.size], pointer, &mut part, &mut parts[first..]);
                parts.push(part);
            }
        }
        Ok(Self { layout, structs, parts })
    }

    /// Returns the pointer to the structs, and their number of bytes.
    pub fn span(&mut self) -> Span {
        Span::written(&mut self.structs)
    }

    /// Adds the lengths that the function said for attributes, 0 for those that it does not show,
    /// in the order of the message, like the rooms.
    pub fn lengths(&self, lengths: &mut Vec<u64>) {
        for (bytes, part) in self.structs.chunks_exact(self.layout.size).zip(&self.parts) {
            match part {
                Part::Structs(inner) => inner.lengths(lengths),
                _ => lengths.push(match number(bytes, ATTRIBUTE_LEN) {
                    CK_UNAVAILABLE_INFORMATION => 0,
                    len => len,
                }),
            }
        }
    }

    /// Returns the number of structs.
    pub fn count(&self) -> u64 {
        (self.structs.len() / self.layout.size) as u64
    }

    /// Adds what a function wrote to `outputs`.
    pub fn report<'b>(&'b self, outputs: &mut Vec<&'b Bytes>) {
        self.report_first(usize::MAX, outputs);
    }

    /// Adds what a function wrote to this number of structs.
    fn report_first<'b>(&'b self, count: usize, outputs: &mut Vec<&'b Bytes>) {
        let mut parts = self.parts.iter();
        for (index, bytes) in self.structs.chunks_exact(self.layout.size).take(count).enumerate() {
            for (at, len) in self.layout.written {
                outputs.push(Bytes::new(&bytes[*at..at + len]));
            }
            let start = index * self.layout.pointers.len();
            for (pointer, part) in self.layout.pointers.iter().zip(&mut parts) {
                match part {
                    Part::Written(written, Flow::Out) => {
                        let len = self.written_len(pointer, bytes, start);
                        outputs.push(Bytes::new(written.get(..len).unwrap_or(&[])));
                    }
                    Part::Written(written, _) => outputs.push(Bytes::new(written)),
                    Part::Structs(inner) if matches!(pointer.target, Target::Value(Flow::Out)) => {
                        let (kind, len) = (number(bytes, ATTRIBUTE_TYPE), number(bytes, ATTRIBUTE_LEN));
                        match filled(kind, len, &inner.structs) {
                            Filled::Attributes(count) => inner.report_first(count, outputs),
                            Filled::Bytes(bytes) => outputs.push(Bytes::new(bytes)),
                        }
                    }
                    Part::Structs(inner) => inner.report(outputs),
                    Part::Nothing | Part::Read(_) => {}
                }
            }
        }
    }

    /// Returns the number of bytes that a function wrote behind a pointer. More than there is room
    /// for if it wrote none, because they did not fit.
    fn written_len(&self, pointer: &Pointer, bytes: &[u8], start: usize) -> usize {
        let len = match &pointer.target {
            Target::Value(_) => number(bytes, ATTRIBUTE_LEN),
            Target::Bytes { len: Len::Behind(index), .. } => {
                self.parts.get(start + index).map_or(0, |part| number(part.bytes(), 0))
            }
            _ => return usize::MAX,
        };
        len as usize
    }
}

impl Part<'_> {
    /// Returns the pointer and the number of bytes. `said` is the length that `NULL` keeps.
    fn span(&mut self, said: u64) -> Span {
        match self {
            Self::Nothing => Span::null(said),
            Self::Read(bytes) => Span::read(bytes),
            Self::Written(bytes, _) => Span::written(bytes),
            Self::Structs(memory) => memory.span(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Written(bytes, _) => bytes,
            Self::Nothing | Self::Structs(_) => &[],
        }
    }
}

/// Writes a pointer of a struct, and the length behind it. `before` are the parts of the pointers
/// before it.
fn set(bytes: &mut [u8], pointer: &Pointer, part: &mut Part<'_>, before: &mut [Part<'_>]) {
    let is_null = matches!(part, Part::Nothing);
    let (place, unit) = match &pointer.target {
        Target::Value(_) => (bytes.get_mut(ATTRIBUTE_LEN..), 1),
        Target::Structs { count: Count::Field(at, _), layout } => (bytes.get_mut(*at..), layout.size as u64),
        Target::Structs { count: Count::One, .. } => (None, 1),
        Target::Bytes { len: Len::Behind(index), .. } => match before.get_mut(*index) {
            Some(Part::Written(bytes, _)) => (Some(&mut bytes[..]), 1),
            _ => (None, 1),
        },
        // `extent` allowed no part but one of exactly this number of bits.
        Target::Bytes { len: Len::Bits(at) | Len::Poly1305Nonce(at), .. } if is_null => {
            (bytes.get_mut(*at..), 1)
        }
        Target::Bytes { len, .. } => (len.field().and_then(|at| bytes.get_mut(at..)), 1),
    };
    let mut place = place.and_then(|place| place.first_chunk_mut::<8>());
    let said = match (&pointer.target, &place) {
        (Target::Value(Flow::Out), _) | (_, None) => 0,
        (_, Some(place)) => u64::from_ne_bytes(**place),
    };
    let span = part.span(said);
    if let Some(place) = &mut place {
        **place = (span.len / if is_null { 1 } else { unit }).to_ne_bytes();
    }
    bytes[pointer.at..pointer.at + 8].copy_from_slice(&span.pointer.expose_provenance().to_ne_bytes());
}
