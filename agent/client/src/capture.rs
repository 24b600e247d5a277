//! Copies C structs of the application into an image, and what a function wrote back to them.
//!
//! All pointers here are the application's. They are valid by the contract of PKCS#11 for the call.

use std::borrow::Cow;
use std::ptr::slice_from_raw_parts;

use cryptoki_sys::{CK_ATTRIBUTE, CK_UNAVAILABLE_INFORMATION};
use jeton_agent_wire::image::{Behind, Extent, Image, Item, Outputs, Walk, extent, number};
use jeton_agent_wire::layout::{ATTRIBUTE_READ, Flow, Layout, Len, PASSWORD_LIMIT, Target};
use jeton_agent_wire::{Malformed, Unfit};
use serde_bytes::Bytes;

const LENGTH: usize = std::mem::offset_of!(CK_ATTRIBUTE, ulValueLen);
const VALUE: usize = std::mem::offset_of!(CK_ATTRIBUTE, pValue);

/// Copies structs of the application. Fails if there is no memory for the copy.
///
/// # Safety
///
/// `first` is readable for `count` structs of this layout, or `count` is 0. The memory that they
/// point to is readable.
pub unsafe fn capture(
    layout: &'static Layout,
    first: *const u8,
    count: u64,
) -> Result<Image<'static>, Unfit> {
    let mut image = Vec::new();
    // SAFETY: the caller's promise.
    unsafe { capture_at(layout, first, count, &[], &mut Walk::default(), &mut image) }?;
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
    walk: &mut Walk,
    image: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let len = layout.size * count as usize;
    let mut structs = vec![0; len];
    if len > 0 {
        // SAFETY: the caller's promise.
        unsafe { first.copy_to_nonoverlapping(structs.as_mut_ptr(), len) };
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
            let at = index * layout.size + pointer.at;
            // SAFETY: inside the structs, by the layout. A pointer is valid for every 8 bytes.
            let to = unsafe { first.add(at).cast::<*const u8>().read_unaligned() };
            let mut read: &[u8] = &[];
            let item = match extent(pointer, bytes, owner, &behind) {
                _ if to.is_null() => Item::Nothing,
                Extent::Refused => Item::Nothing,
                Extent::Bytes(_, Flow::Out) => Item::Room,
                Extent::Bytes(len, _) => {
                    // SAFETY: readable for this length by the caller's promise.
                    read = unsafe { &*slice_from_raw_parts(to, len as usize) };
                    Item::Bytes(Bytes::new(read))
                }
                Extent::Structs(count, layout) if walk.enter(count) => {
                    // SAFETY: the caller's promise.
                    unsafe { capture_at(layout, to, count, bytes, walk, image) }?;
                    walk.leave();
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

/// Copies what the function wrote to the structs of the application. Unchanged memory is not
/// written, because it may be constant.
///
/// # Safety
///
/// `first` points to the structs that the image was captured from. They and the memory that they
/// point to are writable where the function writes.
pub unsafe fn restore(
    image: &Image<'_>,
    layout: &'static Layout,
    first: *mut u8,
    outputs: &mut Outputs<'_, '_>,
) -> Result<(), Malformed> {
    let mut items = &image.0[..];
    let structs = Item::take_structs(&mut items)?;
    // SAFETY: the caller's promise.
    unsafe { restore_at(structs, &mut items, layout, first, &[], outputs) }
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
    outputs: &mut Outputs<'_, '_>,
) -> Result<(), Malformed> {
    for (index, bytes) in structs.chunks_exact(layout.size).enumerate() {
        // SAFETY: inside the structs of the application.
        let place = unsafe { first.add(index * layout.size) };
        for (at, len) in layout.written {
            let written = outputs.next(*len)?;
            if std::ptr::eq(layout, &ATTRIBUTE_READ) && *at == LENGTH {
                // The application reads as many bytes as its buffer is said to have.
                // SAFETY: a field of the struct.
                let is_query = unsafe { place.add(VALUE).cast::<*const u8>().read_unaligned() }.is_null();
                let len = number(written, 0);
                if !is_query && len > number(bytes, LENGTH) && len != CK_UNAVAILABLE_INFORMATION {
                    return Err(Malformed);
                }
            }
            // SAFETY: a field of the struct.
            unsafe { put_changed(place.add(*at), written) };
        }
        let mut behind = Behind::default();
        for pointer in layout.pointers {
            // SAFETY: as above.
            let to = unsafe { place.add(pointer.at).cast::<*mut u8>().read_unaligned() };
            let item = Item::take(items)?;
            match (&item, extent(pointer, bytes, owner, &behind)) {
                (Item::Room, Extent::Bytes(room, Flow::Out))
                | (Item::Bytes(_), Extent::Bytes(room, Flow::Both)) => {
                    // SAFETY: the application's memory has this room.
                    unsafe { put_changed(to, outputs.at_most(room)?) };
                }
                (Item::Structs(inner), Extent::Structs(_, layout)) => {
                    // SAFETY: the caller's promise.
                    unsafe { restore_at(inner, items, layout, to, bytes, outputs) }?;
                }
                _ => {}
            }
            behind.push(if let Item::Bytes(read) = item { read } else { &[] });
        }
    }
    Ok(())
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
