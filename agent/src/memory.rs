//! C structs that the agent builds from an image, for a call of the C interface.

use std::ptr::{NonNull, null_mut};

use cryptoki_sys::*;
use jeton_agent_wire::Malformed;
use jeton_agent_wire::image::{Behind, Extent, Image, Item, Walk, extent, number};
use jeton_agent_wire::layout::{ATTRIBUTE_LEN, Flow, Layout, Len, PASSWORD_LIMIT, Pointer, Target};
use serde_bytes::Bytes;

use crate::budget::{Budget, Unserved};

/// Structs that the agent built. All their pointers point to memory of this value or to the
/// message, or are `NULL`.
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
        let mut items = &image.0[..];
        let structs = Item::take_structs(&mut items)?;
        let built = Self::build_at(layout, count, structs, &mut items, &[], &mut Walk::default(), budget)?;
        if items.is_empty() { Ok(built) } else { Err(Malformed.into()) }
    }

    fn build_at(
        layout: &'static Layout,
        count: u64,
        given: &[u8],
        items: &mut &'a [u8],
        owner: &[u8],
        walk: &mut Walk,
        budget: &mut Budget,
    ) -> Result<Self, Unserved> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        Malformed::unless(Some(given.len()) == count.checked_mul(layout.size))?;
        budget.take(given.len() + count * layout.pointers.len() * size_of::<Part<'_>>())?;
        let mut structs = given.to_vec();
        let mut parts = Vec::with_capacity(count * layout.pointers.len());
        for at in (0..structs.len()).step_by(layout.size) {
            let mut behind = Behind::default();
            for pointer in layout.pointers {
                let bytes = &mut structs[at..at + layout.size];
                if let Target::Bytes { len: Len::Password(field), .. } = &pointer.target
                    && number(bytes, *field) >= PASSWORD_LIMIT
                {
                    // The function would take it for an address.
                    bytes[*field..*field + 8].fill(0xff);
                }
                let mut part = match (Item::take(items)?, extent(pointer, bytes, owner, &behind)) {
                    (Item::Nothing, _) => Part::Nothing,
                    (Item::Bytes(given), Extent::Bytes(len, flow)) if given.len() as u64 == len => match flow
                    {
                        Flow::In => Part::Read(given),
                        Flow::Both => {
                            budget.take(2 * given.len())?;
                            Part::Written(given.to_vec(), flow)
                        }
                        Flow::Out => return Err(Malformed.into()),
                    },
                    (Item::Room, Extent::Bytes(len, Flow::Out)) => {
                        // All rooms of a call together have a limit. What does not fit is reported
                        // as too long.
                        let len = len.min(walk.room);
                        walk.room -= len;
                        // The answer has a copy.
                        budget.take(2 * len as usize)?;
                        Part::Written(vec![0; len as usize], Flow::Out)
                    }
                    (Item::Structs(inner), Extent::Structs(count, layout)) if walk.enter(count) => {
                        let inner = Self::build_at(layout, count, inner, items, bytes, walk, budget)?;
                        walk.leave();
                        Part::Structs(inner)
                    }
                    _ => return Err(Malformed.into()),
                };
                if let (Part::Written(room, Flow::Out), Target::Value(_)) = (&part, &pointer.target) {
                    // The room is shorter than an application with a very long buffer says.
                    let field = ATTRIBUTE_LEN;
                    if number(bytes, field) != CK_UNAVAILABLE_INFORMATION {
                        bytes[field..field + 8].copy_from_slice(&(room.len() as u64).to_ne_bytes());
                    }
                }
                behind.push(part.bytes());
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

    pub fn address(&mut self) -> *mut u8 {
        if self.structs.is_empty() {
            NonNull::<u64>::dangling().as_ptr().cast()
        } else {
            self.structs.as_mut_ptr()
        }
    }

    /// Adds what a function wrote to `outputs`.
    pub fn report<'b>(&'b self, outputs: &mut Vec<&'b Bytes>) {
        let mut parts = self.parts.iter();
        for (index, bytes) in self.structs.chunks_exact(self.layout.size).enumerate() {
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
    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Nothing => null_mut(),
            Self::Read([]) => NonNull::<u64>::dangling().as_ptr().cast(),
            Self::Read(bytes) => bytes.as_ptr().cast_mut(),
            Self::Written(bytes, _) if bytes.is_empty() => NonNull::<u64>::dangling().as_ptr().cast(),
            Self::Written(bytes, _) => bytes.as_mut_ptr(),
            Self::Structs(memory) => memory.address(),
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
