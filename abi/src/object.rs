//! "Object management functions": objects and their attributes.

use std::mem::size_of;
use std::ptr::copy_nonoverlapping;

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CK_UNAVAILABLE_INFORMATION,
};
use jeton_names::structs::TEMPLATES;
use jeton_words::attribute::AttributeView;
use jeton_words::error::{Error, Result, require};
use jeton_words::id::AttributeType;
use jeton_words::token::{Attributes, Function, Room, Token, worse};

use crate::call::{Entry, answered, in_template};
use crate::ck_ulong::{length, narrow, object, wide};
use crate::input::{MAX_ATTRIBUTES, Place, attribute_type, template};

pub unsafe fn C_CreateObject<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    created: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_CreateObject, handle, |token, session| {
        let place = Place::at(created)?;
        // SAFETY: the contract of PKCS#11 for pTemplate.
        let template = unsafe { template(attributes, count) }?;
        let created = answered(token.create_object(session, &template).map_err(in_template))?;
        // SAFETY: the contract of PKCS#11 for phObject.
        unsafe { place.put(narrow(created.0)) };
        Ok(())
    })
}

pub unsafe fn C_CopyObject<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    original: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    created: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_CopyObject, handle, |token, session| {
        let place = Place::at(created)?;
        // SAFETY: the contract of PKCS#11 for pTemplate.
        let template = unsafe { template(attributes, count) }?;
        let created = token.copy_object(session, object(original), &template);
        let created = answered(created.map_err(in_template))?;
        // SAFETY: the contract of PKCS#11 for phNewObject.
        unsafe { place.put(narrow(created.0)) };
        Ok(())
    })
}

/// # Safety
///
/// None: no pointer is passed.
pub unsafe fn C_DestroyObject<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    doomed: CK_OBJECT_HANDLE,
) -> CK_RV {
    entry.call_in(Function::C_DestroyObject, handle, |token, session| {
        answered(token.destroy_object(session, object(doomed)))
    })
}

pub unsafe fn C_GetObjectSize<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    measured: CK_OBJECT_HANDLE,
    size: *mut CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_GetObjectSize, handle, |token, session| {
        let place = Place::at(size)?;
        let size = answered(token.object_size(session, object(measured)))?;
        // SAFETY: the contract of PKCS#11 for pulSize.
        unsafe { place.put(narrow(size)) };
        Ok(())
    })
}

pub unsafe fn C_GetAttributeValue<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    read: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_GetAttributeValue, handle, |token, session| {
        let count = usize::try_from(count).map_err(|_| Error::ArgumentsBad)?;
        require(count <= MAX_ATTRIBUTES && !(attributes.is_null() && count > 0), Error::ArgumentsBad)?;
        let mut wanted = Wanted { attributes, count, outcome: Ok(()) };
        answered(token.attributes(session, object(read), &mut wanted))?;
        answered(wanted.outcome)
    })
}

pub unsafe fn C_SetAttributeValue<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    changed: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_SetAttributeValue, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for pTemplate.
        let template = unsafe { template(attributes, count) }?;
        answered(token.set_attributes(session, object(changed), &template).map_err(in_template))
    })
}

/// The template of `C_GetAttributeValue`.
struct Wanted {
    /// Readable and writable for `count` attributes, and their values are writable.
    attributes: *mut CK_ATTRIBUTE,
    count: usize,
    outcome: Result<()>,
}

impl Wanted {
    /// Returns the place of an attribute, and a copy.
    #[inline]
    fn attribute(&self, index: usize) -> (*mut CK_ATTRIBUTE, CK_ATTRIBUTE) {
        assert!(index < self.count);
        // SAFETY: `index` is below the number of attributes.
        unsafe { (self.attributes.add(index), self.attributes.add(index).read_unaligned()) }
    }
}

impl Attributes for Wanted {
    #[inline]
    fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn asked(&self, index: usize) -> (AttributeType, Room) {
        let (_, given) = self.attribute(index);
        let room = match given.pValue.is_null() || !TEMPLATES.contains(&wide(given.type_)) {
            true => room(&given),
            // SAFETY: the value of an attribute of the template.
            false => unsafe { room_of_array(&given) },
        };
        (attribute_type(given.type_), room)
    }

    #[inline]
    fn tell(&mut self, index: usize, value: Result<AttributeView<'_>>) {
        let (place, given) = self.attribute(index);
        // SAFETY: an attribute of the template, which is writable, and so is its value.
        let told = unsafe { tell(place, &given, value.as_ref().map_err(|error| *error)) };
        self.outcome = worse(self.outcome, told);
    }

    fn outcome(&self) -> Result<()> {
        self.outcome
    }
}

/// Returns the room for a value that is no array.
#[inline]
fn room(given: &CK_ATTRIBUTE) -> Room {
    if given.pValue.is_null() { Room::Length } else { Room::Bytes(room_len(given)) }
}

/// Returns the length of the caller's buffer. `CK_UNAVAILABLE_INFORMATION` may be left from an
/// earlier call. It is not a length.
#[inline]
fn room_len(given: &CK_ATTRIBUTE) -> u64 {
    if given.ulValueLen == CK_UNAVAILABLE_INFORMATION { 0 } else { wide(given.ulValueLen) }
}

/// Returns the room for a template. The types in it are "ignored on input".
///
/// # Safety
///
/// The value is not `NULL`, and readable.
#[cold]
unsafe fn room_of_array(given: &CK_ATTRIBUTE) -> Room {
    let len = room_len(given);
    let count = usize::try_from(len).unwrap_or_default() / size_of::<CK_ATTRIBUTE>();
    let first = given.pValue.cast::<CK_ATTRIBUTE>();
    // The types of the inner attributes are "ignored on input".
    // SAFETY: the caller's promise.
    let inner = |index| unsafe { room(&first.add(index).read_unaligned()) };
    Room::Template(len, (0..count.min(MAX_ATTRIBUTES)).map(inner).collect())
}

/// Fills one attribute and writes its length.
///
/// # Safety
///
/// `given` is a copy of the attribute at `place`. The attribute is writable, and so is the memory
/// that it points to.
#[inline]
unsafe fn tell(
    place: *mut CK_ATTRIBUTE,
    given: &CK_ATTRIBUTE,
    view: Result<&AttributeView<'_>>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let told = view.and_then(|view| unsafe { fill(given, view) });
    let len = told.map_or(CK_UNAVAILABLE_INFORMATION, |(len, _)| len);
    // SAFETY: a field of an attribute that is writable by the caller's promise.
    unsafe { (&raw mut (*place).ulValueLen).write_unaligned(len) };
    told.and_then(|(_, within)| within)
}

/// Copies a value if it fits. Returns its exact length and the result of the nested attributes.
///
/// # Safety
///
/// The value of `given` is writable.
unsafe fn fill(given: &CK_ATTRIBUTE, view: &AttributeView<'_>) -> Result<(CK_ULONG, Result<()>)> {
    let needed = match view {
        AttributeView::Bytes(bytes) => bytes.len(),
        AttributeView::Template(within) => within.len() * size_of::<CK_ATTRIBUTE>(),
        AttributeView::Length(len) => *len,
    };
    if given.pValue.is_null() {
        return Ok((length(needed), Ok(())));
    }
    if room_len(given) < needed as u64 {
        return Err(Error::BufferTooSmall { needed });
    }
    let within = match view {
        AttributeView::Bytes(bytes) => {
            // SAFETY: `needed` bytes fit by the caller's promise. The core's memory and the
            // application's do not overlap.
            unsafe { copy_nonoverlapping(bytes.as_ptr(), given.pValue.cast(), needed) };
            Ok(())
        }
        // SAFETY: by the caller's promise this number of attributes fits.
        AttributeView::Template(within) => unsafe { fill_array(given.pValue.cast(), within) },
        // The other side took the room for a shorter one.
        AttributeView::Length(_) => return Err(Error::BufferTooSmall { needed }),
    };
    Ok((length(needed), within))
}

/// Fills an array of attributes, whose types are "ignored on input and MUST be set on output".
///
/// # Safety
///
/// `attributes` is readable and writable for the number of attributes in `within`, and their values
/// are writable.
unsafe fn fill_array(
    attributes: *mut CK_ATTRIBUTE,
    within: &[(AttributeType, AttributeView<'_>)],
) -> Result<()> {
    let mut outcome = Ok(());
    for (index, (id, view)) in within.iter().enumerate() {
        // SAFETY: `index` is below the number that the caller promises.
        let (place, given) = unsafe { (attributes.add(index), attributes.add(index).read_unaligned()) };
        // SAFETY: the caller promises that the attribute is writable; this is one of its fields.
        unsafe { (&raw mut (*place).type_).write_unaligned(narrow(id.0)) };
        // SAFETY: the caller's promise, for this attribute.
        outcome = worse(outcome, unsafe { tell(place, &given, Ok(view)) });
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use cryptoki_sys::{
        CK_ATTRIBUTE_TYPE, CKA_ID, CKA_LABEL, CKA_MODULUS, CKA_SIGN, CKA_VALUE, CKA_VENDOR_DEFINED,
        CKA_WRAP_TEMPLATE,
    };
    use jeton_words::attribute::Shown;

    use super::*;

    const UNAVAILABLE: CK_ULONG = CK_UNAVAILABLE_INFORMATION;

    fn attributes<'a>(id: AttributeType) -> Result<AttributeView<'a>> {
        let bytes = |bytes: &'a [u8]| AttributeView::Bytes(Shown::Held(bytes));
        match id {
            AttributeType::LABEL => Ok(bytes(b"ca")),
            AttributeType::ID => Ok(bytes(b"")),
            AttributeType::VALUE => Err(Error::AttributeSensitive),
            AttributeType::WRAP_TEMPLATE => Ok(AttributeView::Template(vec![
                (AttributeType::LABEL, bytes(b"ca")),
                (AttributeType::SIGN, bytes(b"\x01")),
            ])),
            _ => Err(Error::AttributeTypeInvalid),
        }
    }

    fn want(type_: CK_ATTRIBUTE_TYPE, value: &mut [u8]) -> CK_ATTRIBUTE {
        CK_ATTRIBUTE { type_, pValue: value.as_mut_ptr().cast(), ulValueLen: length(value.len()) }
    }

    fn ask(type_: CK_ATTRIBUTE_TYPE) -> CK_ATTRIBUTE {
        CK_ATTRIBUTE { type_, pValue: null_mut(), ulValueLen: 7 }
    }

    fn get(template: &mut [CK_ATTRIBUTE]) -> Result<()> {
        let mut wanted = Wanted { attributes: template.as_mut_ptr(), count: template.len(), outcome: Ok(()) };
        for index in 0..wanted.count() {
            let value = attributes(wanted.asked(index).0);
            wanted.tell(index, value);
        }
        wanted.outcome
    }

    #[test]
    fn each_attribute_gets_its_length_even_if_others_fail() {
        let (mut short, mut fits) = ([9; 1], [9; 2]);
        let mut template =
            [want(CKA_LABEL, &mut short), ask(CKA_VALUE), ask(CKA_MODULUS), want(CKA_LABEL, &mut fits)];
        assert_eq!(get(&mut template), Err(Error::AttributeSensitive));
        assert_eq!(
            template.map(|attribute| attribute.ulValueLen),
            [UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, 2]
        );
        assert_eq!((short, fits), ([9; 1], *b"ca"));
    }

    #[test]
    fn other_errors_take_precedence_over_a_short_buffer() {
        let mut short = [9; 1];
        let mut template = [want(CKA_LABEL, &mut short), ask(CKA_MODULUS)];
        assert_eq!(get(&mut template), Err(Error::AttributeTypeInvalid));
        template.reverse();
        assert_eq!(get(&mut template), Err(Error::AttributeTypeInvalid));
        assert_eq!(worse(Err(Error::DeviceError), Err(Error::AttributeSensitive)), Err(Error::DeviceError));
    }

    #[test]
    fn a_length_left_by_an_error_is_not_a_buffer_size() {
        let mut short = [9; 1];
        let mut template = [CK_ATTRIBUTE { ulValueLen: UNAVAILABLE, ..want(CKA_LABEL, &mut short) }];
        assert_eq!(get(&mut template), Err(Error::BufferTooSmall { needed: 2 }));
        assert_eq!((short, template[0].ulValueLen), ([9; 1], UNAVAILABLE));
        let mut template = [CK_ATTRIBUTE { ulValueLen: UNAVAILABLE, ..want(CKA_ID, &mut short) }];
        assert_eq!((get(&mut template), template[0].ulValueLen), (Ok(()), 0));
    }

    #[test]
    fn an_array_is_filled_with_types_and_lengths() {
        let mut label = [9; 2];
        let mut within = [want(CKA_VENDOR_DEFINED, &mut label), ask(CKA_VENDOR_DEFINED)];
        let room = length(size_of_val(&within));
        let mut template = [
            ask(CKA_WRAP_TEMPLATE),
            CK_ATTRIBUTE { pValue: within.as_mut_ptr().cast(), ulValueLen: room, ..ask(CKA_WRAP_TEMPLATE) },
        ];
        assert_eq!(get(&mut template), Ok(()));
        assert_eq!(template.map(|attribute| attribute.ulValueLen), [room; 2]);
        assert_eq!(
            within.map(|attribute| (attribute.type_, attribute.ulValueLen)),
            [(CKA_LABEL, 2), (CKA_SIGN, 1)]
        );
        assert_eq!(label, *b"ca");
    }

    #[test]
    fn a_short_value_within_an_array_is_reported() {
        let mut short = [9; 1];
        let mut within = [want(CKA_LABEL, &mut short), ask(CKA_SIGN)];
        let room = length(size_of_val(&within));
        let mut array = |len| CK_ATTRIBUTE {
            type_: CKA_WRAP_TEMPLATE,
            pValue: within.as_mut_ptr().cast(),
            ulValueLen: len,
        };
        let mut template = [array(room)];
        assert_eq!(get(&mut template), Err(Error::BufferTooSmall { needed: 2 }));
        assert_eq!(template[0].ulValueLen, room);
        let mut template = [array(room - 1)];
        assert_eq!(get(&mut template), Err(Error::BufferTooSmall { needed: room as usize }));
        assert_eq!(template[0].ulValueLen, UNAVAILABLE);
        assert_eq!(within.map(|attribute| attribute.ulValueLen), [UNAVAILABLE, 1]);
    }
}
