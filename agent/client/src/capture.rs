//! Copies C structs of the application into an image, and what a function wrote back to them.
//!
//! All pointers here are the application's. They are valid by the contract of PKCS#11 for the call.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ptr::slice_from_raw_parts;

use cryptoki_sys::{CK_RV, CK_UNAVAILABLE_INFORMATION, CKR_OK};
use jeton_agent_wire::image::{Behind, Extent, Filled, Image, Item, Walk, extent, filled, number};
use jeton_agent_wire::layout::{
    ATTRIBUTE_LEN, ATTRIBUTE_READ, ATTRIBUTE_TYPE, ATTRIBUTE_VALUE, Flow, Layout, Len, PASSWORD_LIMIT,
    Pointer, Target,
};
use jeton_agent_wire::{Malformed, Unfit};
use serde_bytes::Bytes;

use crate::system::{self, Written};

/// The array attributes of which the application's attributes have the types and the number of
/// those of the object, by their positions in the arrays that contain them. The others may contain
/// anything.
pub type Known = BTreeSet<Vec<usize>>;

/// The way to a struct.
struct Way<'a> {
    walk: Walk,
    known: &'a Known,
    positions: Vec<usize>,
}

/// Copies structs of the application. Fails if there is no memory for the copy.
///
/// # Safety
///
/// `first` is readable for `count` structs of this layout, or `count` is 0. The memory that they
/// point to is readable, but for that of array attributes that are not known.
pub unsafe fn capture(
    layout: &'static Layout,
    first: *const u8,
    count: u64,
    known: &Known,
) -> Result<Image<'static>, Unfit> {
    let mut image = Vec::new();
    let way = &mut Way { walk: Walk::default(), known, positions: Vec::new() };
    // SAFETY: the caller's promise.
    unsafe { capture_at(layout, first, count, &[], way, &mut image) }?;
    Ok(Image(Cow::Owned(image.into())))
}

/// # Safety
///
/// As for [`capture`].
unsafe fn capture_at(
    layout: &'static Layout,
    first: *const u8,
    count: u64,
    owner: &[u8],
    way: &mut Way<'_>,
    image: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let len = layout.size * count as usize;
    let mut structs = vec![0; len];
    if len > 0 {
        // SAFETY: the caller's promise.
        unsafe { system::copy(layout, first, &mut structs) };
    }
    for bytes in structs.chunks_exact_mut(layout.size) {
        for pointer in layout.pointers {
            bytes[pointer.at..pointer.at + 8].fill(0);
            if let Target::Bytes { len: Len::Password(field), .. } = &pointer.target {
                // SAFETY: the caller's promise.
                unsafe { resolve_password(bytes, *field) };
            }
        }
    }
    Item::Structs(Bytes::new(&structs)).append(image)?;
    for (index, bytes) in structs.chunks_exact(layout.size).enumerate() {
        let mut behind = Behind::default();
        for pointer in layout.pointers {
            // SAFETY: inside the structs, by the layout. A pointer is valid for every 8 bytes.
            let to = unsafe { system::field(layout, first.cast_mut(), index, pointer.at) };
            // SAFETY: as above.
            let to = unsafe { to.cast::<*const u8>().read_unaligned() };
            let (mut read, mut kept): (&[u8], _) = (&[], Vec::new());
            let item = match extent(pointer, bytes, owner, &behind) {
                _ if to.is_null() => Item::Nothing,
                Extent::Refused => Item::Nothing,
                Extent::Bytes(_, Flow::Out) => Item::Room,
                Extent::Bytes(len, _) => {
                    // SAFETY: readable for this length by the caller's promise.
                    read = unsafe { system::bytes(pointer, bytes, to, len, &mut kept) };
                    Item::Bytes(Bytes::new(read))
                }
                Extent::Structs(count, layout) if way.walk.enter(count) => {
                    way.positions.push(index);
                    if std::ptr::eq(layout, &ATTRIBUTE_READ) && !way.known.contains(&way.positions) {
                        Item::Structs(Bytes::new(&vec![0; layout.size * count as usize])).append(image)?;
                        for _ in 0..count {
                            Item::Nothing.append(image)?;
                        }
                    } else {
                        // SAFETY: the caller's promise.
                        unsafe { capture_at(layout, to, count, bytes, way, image) }?;
                    }
                    way.positions.pop();
                    way.walk.leave();
                    behind.push(&[]);
                    continue;
                }
                Extent::Structs(..) => Item::Nothing,
            };
            item.append(image)?;
            behind.push(read);
        }
    }
    Ok(())
}

/// The byte strings that a function wrote, in the order in which its arguments take them, and where
/// they go. Nothing is written before all of them fit.
pub struct Results<'a> {
    /// The code of the call.
    pub code: CK_RV,
    outputs: std::slice::Iter<'a, &'a Bytes>,
    /// What is written at the end.
    pub writes: Vec<(*mut u8, Written<'a>)>,
}

impl<'a> Results<'a> {
    /// Returns results of which nothing was taken.
    pub fn new(code: CK_RV, outputs: &'a [&'a Bytes]) -> Self {
        Self { code, outputs: outputs.iter(), writes: Vec::new() }
    }

    /// Returns the next string, of this length.
    pub fn next(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        self.at_most(len as u64).and_then(|bytes| if bytes.len() == len { Ok(bytes) } else { Err(Malformed) })
    }

    /// Returns the next string, of at most this length.
    pub fn at_most(&mut self, room: u64) -> Result<&'a [u8], Malformed> {
        let bytes = self.outputs.next().ok_or(Malformed)?;
        if bytes.len() as u64 <= room { Ok(bytes) } else { Err(Malformed) }
    }

    /// Takes a value of this length, which only a successful call writes.
    pub fn value(&mut self, place: *mut u8, len: u64) -> Result<Option<&'a [u8]>, Malformed> {
        let bytes = self.at_most(len)?;
        if self.code != CKR_OK || place.is_null() {
            return Ok(None);
        }
        if bytes.len() as u64 == len { Ok(Some(bytes)) } else { Err(Malformed) }
    }

    /// Notes that these bytes go to this place.
    pub fn put(&mut self, place: *mut u8, bytes: impl Into<Written<'a>>) {
        self.writes.push((place, bytes.into()));
    }

    /// Writes what goes to the application. Fails if the function wrote more than its arguments
    /// take.
    ///
    /// # Safety
    ///
    /// Each place that was noted is writable for its bytes.
    pub unsafe fn write(self) -> Result<(), Malformed> {
        Malformed::unless(self.outputs.len() == 0)?;
        for (place, bytes) in self.writes.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            // SAFETY: the caller's promise. The bytes are this library's.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }
}

/// Takes what the function wrote to the structs of the application. Unchanged memory is not
/// written, because it may be constant. If `known` grows, the next call with the same arguments
/// gets the values in array attributes.
///
/// # Safety
///
/// `first` points to the structs that the image was captured from. They and the memory that they
/// point to are readable.
pub unsafe fn restore(
    image: &Image<'_>,
    layout: &'static Layout,
    first: *mut u8,
    known: &mut Known,
    results: &mut Results<'_>,
) -> Result<(), Malformed> {
    let mut items = &image.0[..];
    let structs = Item::take_structs(&mut items)?;
    let mut positions = Vec::new();
    // SAFETY: the caller's promise.
    unsafe { restore_at(structs, &mut items, layout, first, &[], (known, &mut positions), results) }
}

/// Passes over the items of attributes to which the function wrote nothing. Their memory may not
/// be valid.
fn skip(attributes: &[u8], items: &mut &[u8]) -> Result<(), Malformed> {
    for _ in attributes.chunks_exact(ATTRIBUTE_READ.size) {
        if let Item::Structs(inner) = Item::take(items)? {
            skip(inner, items)?;
        }
    }
    Ok(())
}

/// # Safety
///
/// As for [`restore`].
unsafe fn restore_at(
    structs: &[u8],
    items: &mut &[u8],
    layout: &'static Layout,
    first: *mut u8,
    owner: &[u8],
    (known, positions): (&mut Known, &mut Vec<usize>),
    results: &mut Results<'_>,
) -> Result<(), Malformed> {
    for (index, bytes) in structs.chunks_exact(layout.size).enumerate() {
        // SAFETY: inside the structs of the application.
        let place = |at| unsafe { system::field(layout, first, index, at) };
        let (old, mut kind) = (number(bytes, ATTRIBUTE_TYPE), number(bytes, ATTRIBUTE_TYPE));
        let mut len = 0;
        for (at, size) in layout.written {
            let written = results.next(*size)?;
            let is_attribute = std::ptr::eq(layout, &ATTRIBUTE_READ);
            // Only attributes in an attribute get a type.
            if is_attribute
                && *at == ATTRIBUTE_TYPE
                && owner.is_empty()
                && written != &bytes[ATTRIBUTE_TYPE..ATTRIBUTE_TYPE + 8]
            {
                return Err(Malformed);
            }
            let mut native = system::numbers(written);
            if is_attribute && *at == ATTRIBUTE_TYPE {
                kind = number(written, 0);
            }
            if is_attribute && *at == ATTRIBUTE_LEN {
                // The application reads as many bytes as its buffer is said to have.
                // SAFETY: a field of the struct.
                let is_query =
                    unsafe { place(ATTRIBUTE_VALUE).cast::<*const u8>().read_unaligned() }.is_null();
                len = number(written, 0);
                let room = system::value_len(old, number(bytes, ATTRIBUTE_LEN));
                let fits = system::value_len(kind, len) <= room || len == CK_UNAVAILABLE_INFORMATION;
                Malformed::unless(is_query || fits)?;
                native = system::length(kind, written);
            }
            // SAFETY: a field of the struct.
            unsafe { put_changed(results, place(*at), native) };
        }
        let mut behind = Behind::default();
        for (nth, pointer) in layout.pointers.iter().enumerate() {
            // SAFETY: as above.
            let to = unsafe { place(pointer.at).cast::<*mut u8>().read_unaligned() };
            let item = Item::take(items)?;
            match (&item, extent(pointer, bytes, owner, &behind)) {
                (Item::Room, Extent::Bytes(room, Flow::Out)) => {
                    let written = results.at_most(room)?;
                    let written = system::value(pointer, [old, kind], room, written).ok_or(Malformed)?;
                    // SAFETY: the application's memory has this room.
                    unsafe { put_changed(results, to, written) };
                }
                (Item::Bytes(read), Extent::Bytes(room, Flow::Both)) => {
                    let written = results.next(room as usize)?;
                    Malformed::unless(!is_len(layout, nth) || number(written, 0) <= number(read, 0))?;
                    let written = system::value(pointer, [old, kind], room, written).ok_or(Malformed)?;
                    // SAFETY: the application's memory has this room.
                    unsafe { put_changed(results, to, written) };
                }
                (Item::Structs(inner), Extent::Structs(_, layout))
                    if matches!(pointer.target, Target::Value(Flow::Out)) =>
                {
                    // A type that is no array's: the object changed since the types were known.
                    let Filled::Attributes(count) = filled(kind, len, inner) else { return Err(Malformed) };
                    let (returned, rest) = inner.split_at(count * layout.size);
                    positions.push(index);
                    if count > 0 && known.insert(positions.clone()) {
                        for index in 0..count {
                            let (kind, _) = (results.next(8)?, results.next(8)?);
                            Item::take(items)?;
                            // SAFETY: inside the array, which has as many bytes as the length says.
                            let place = unsafe { system::field(layout, to, index, ATTRIBUTE_TYPE) };
                            // SAFETY: as above.
                            unsafe { put_changed(results, place, system::numbers(kind)) };
                        }
                    } else {
                        let way = (&mut *known, &mut *positions);
                        // SAFETY: the caller's promise.
                        unsafe { restore_at(returned, items, layout, to, bytes, way, results) }?;
                    }
                    skip(rest, items)?;
                    positions.pop();
                }
                (Item::Structs(inner), Extent::Structs(_, layout)) => {
                    // SAFETY: the caller's promise.
                    unsafe {
                        restore_at(inner, items, layout, to, bytes, (&mut *known, &mut *positions), results)
                    }?;
                }
                _ => {}
            }
            behind.push(if let Item::Bytes(read) = item { read } else { &[] });
        }
    }
    Ok(())
}

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
    let is_address = place.is_aligned() && given < system::END_OF_ADDRESSES;
    // SAFETY: an aligned address by the application's promise.
    let len = if is_address { unsafe { place.read() } } else { u64::MAX };
    let len = if len < PASSWORD_LIMIT { len } else { u64::MAX };
    bytes[field..field + 8].copy_from_slice(&len.to_ne_bytes());
}

/// Returns whether the pointer with this index points to the length of a buffer.
fn is_len(layout: &Layout, index: usize) -> bool {
    let names = |pointer: &Pointer| matches!(pointer.target, Target::Bytes { len: Len::Behind(at), .. } if at == index);
    layout.pointers.iter().any(names)
}

/// # Safety
///
/// `place` is readable for these bytes.
unsafe fn put_changed<'a>(results: &mut Results<'a>, place: *mut u8, bytes: Written<'a>) {
    // SAFETY: the caller's promise.
    if !bytes.is_empty() && unsafe { *slice_from_raw_parts(place, bytes.len()) != *bytes } {
        results.put(place, bytes);
    }
}
