//! Converts C memory to typed values: byte strings, pointers for results, output buffers and
//! templates. The two-call length convention of PKCS#11 is implemented here only. `params` reads
//! mechanisms.

use std::ffi::c_long;
use std::mem::size_of;
use std::ptr::{from_ref, slice_from_raw_parts, slice_from_raw_parts_mut};

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_BYTE, CK_ULONG, CKA_DECAPSULATE_TEMPLATE, CKA_ENCAPSULATE_TEMPLATE,
    CKF_ARRAY_ATTRIBUTE,
};
use jeton_names::structs::TEMPLATES;
use jeton_secret::{Secret, room_for};
use jeton_words::error::{Error, Result, require};
use jeton_words::id::AttributeType;
use jeton_words::operation::Output;
use jeton_words::template::{Given, Raw, Template};

use crate::call::{Failure, answered};
use crate::ck_ulong::{length, wide};

/// The greatest number of attributes in a template, including those of nested templates. An object
/// has at most about fifty.
pub(crate) const MAX_ATTRIBUTES: usize = 1024;
/// The greatest depth of nested templates. For example, the `CKA_UNWRAP_TEMPLATE` of a key may
/// contain a `CKA_UNWRAP_TEMPLATE` for the keys that it unwraps.
pub(crate) const MAX_TEMPLATE_DEPTH: usize = 4;

/// A byte string of the application: pointer and length, not yet checked.
#[derive(Clone, Copy)]
pub(crate) struct In(pub *const CK_BYTE, pub CK_ULONG);

impl In {
    /// Returns a PIN. Fails with `ArgumentsBad` for `NULL`: PKCS#11 3.2, C_Login and similar
    /// functions, has it for a protected authentication path, which the token lacks. Such a call
    /// tries no PIN, so no failure is counted.
    ///
    /// # Safety
    ///
    /// As for [`bytes`](Self::bytes).
    pub(crate) unsafe fn pin<'a>(self) -> Result<&'a [u8]> {
        // SAFETY: the caller's promise.
        if self.0.is_null() { Err(Error::ArgumentsBad) } else { unsafe { self.bytes() } }
    }

    /// Returns the bytes. `NULL` with length 0 is the empty string.
    ///
    /// # Safety
    ///
    /// Unless it is `NULL`, the pointer is readable for the length during `'a`, and nothing writes
    /// there.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8]> {
        let len = memory_len(self.1)?;
        if self.0.is_null() {
            return if len == 0 { Ok(&[]) } else { Err(Error::ArgumentsBad) };
        }
        // SAFETY: not null, at most isize::MAX long; the rest is the caller's promise.
        Ok(unsafe { &*slice_from_raw_parts(self.0, len) })
    }
}

/// Returns a buffer that a function fills completely, such as that of `C_GenerateRandom`.
///
/// # Safety
///
/// Unless it is `NULL`, `pointer` is writable for `len` bytes during `'a`, and nothing else
/// accesses them.
pub(crate) unsafe fn buffer<'a>(pointer: *mut CK_BYTE, len: CK_ULONG) -> Result<&'a mut [u8]> {
    let len = memory_len(len)?;
    if pointer.is_null() {
        return if len == 0 { Ok(&mut []) } else { Err(Error::ArgumentsBad) };
    }
    // SAFETY: not null, at most isize::MAX long; the rest is the caller's promise.
    Ok(unsafe { &mut *slice_from_raw_parts_mut(pointer, len) })
}

/// A pointer to which the module writes one value.
pub(crate) struct Place<T>(*mut T);

impl<T> Place<T> {
    /// Fails with `ArgumentsBad` for `NULL`. Functions call this first, before work whose result
    /// they could not return.
    #[inline]
    pub(crate) fn at(pointer: *mut T) -> Result<Self> {
        if pointer.is_null() { Err(Error::ArgumentsBad) } else { Ok(Self(pointer)) }
    }

    /// # Safety
    ///
    /// The pointer is writable for a `T`.
    #[inline]
    pub(crate) unsafe fn put(self, value: T) {
        // SAFETY: not null; the rest is the caller's promise. Alignment is not required.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// Writes a list by the two-call convention of `C_GetSlotList`: `NULL` asks for the number of
/// items.
///
/// # Safety
///
/// `count` is `NULL` or readable and writable; `items`, unless `NULL`, is writable for `*count`
/// items.
pub(crate) unsafe fn list<T>(
    items: *mut T,
    count: *mut CK_ULONG,
    values: impl ExactSizeIterator<Item = T>,
) -> Result<()> {
    let place = Place::at(count)?;
    let needed = values.len();
    // SAFETY: not null; readable by the caller's promise.
    let room = wide(unsafe { count.read_unaligned() });
    // SAFETY: the caller's promise.
    unsafe { place.put(length(needed)) };
    if items.is_null() {
        return Ok(());
    }
    require(room >= needed as u64, Error::BufferTooSmall { needed })?;
    for (index, value) in values.enumerate() {
        // SAFETY: `index` is below the room that the caller promises.
        unsafe { items.add(index).write_unaligned(value) };
    }
    Ok(())
}

/// An output in the two-call convention (PKCS#11 3.2, "Conventions for functions returning output
/// in a variable-length buffer"): the buffer, and the pointer to its length.
#[derive(Clone, Copy)]
pub(crate) struct Out(pub *mut CK_BYTE, pub *mut CK_ULONG);

/// Runs `work` with an input and an output. `NULL` for the buffer asks for the length. The length
/// is written on success and if the buffer is too small. The input may overlap the output ("can be
/// in the same place", C_Digest).
///
/// # Safety
///
/// The contract of PKCS#11 for `input` and `output`.
#[inline(always)]
pub(crate) unsafe fn transform(
    input: In,
    output: Out,
    work: impl FnOnce(&[u8], Output<'_>) -> Result<usize>,
) -> Result<(), Failure> {
    let Out(pointer, place) = output;
    // SAFETY: the caller's promise.
    let data = unsafe { input.bytes() }?;
    let place = Place::at(place)?;
    if pointer.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { answer(place, work(data, Output::Length)) };
    }
    // SAFETY: `Place::at` refused null; readable by the caller's promise.
    let room = memory_len(unsafe { place.0.read_unaligned() })?;
    let copy = overlap(data, pointer, room).then(|| Secret::try_copy(data)).transpose();
    let copy = copy.map_err(Error::from)?;
    // From here on no slice overlaps the buffer.
    let data = copy.as_deref().unwrap_or(data);
    // SAFETY: not null, writable for `room` bytes by the caller's promise; `data` lies elsewhere.
    let buffer = unsafe { &mut *slice_from_raw_parts_mut(pointer, room) };
    // SAFETY: the caller's promise.
    unsafe { answer(place, work(data, Output::Buffer(buffer))) }
}

/// Runs `work` with an output and without an input, as in `C_SignFinal`.
///
/// # Safety
///
/// The contract of PKCS#11 for the output.
#[inline(always)]
pub(crate) unsafe fn produce(
    output: Out,
    work: impl FnOnce(Output<'_>) -> Result<usize>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise for the output; the input is empty.
    unsafe { transform(In(std::ptr::null(), 0), output, |_, output| work(output)) }
}

/// # Safety
///
/// The place is writable.
#[inline]
unsafe fn answer(place: Place<CK_ULONG>, outcome: Result<usize>) -> Result<(), Failure> {
    if let Ok(len) | Err(Error::BufferTooSmall { needed: len }) = outcome {
        // SAFETY: the caller's promise.
        unsafe { place.put(length(len)) };
    }
    answered(outcome.map(drop))
}

/// Reads a template of `count` attributes.
///
/// # Safety
///
/// The contract of PKCS#11 for `attributes` and the values in it, while `'a` lasts.
pub(crate) unsafe fn template<'a>(attributes: *const CK_ATTRIBUTE, count: CK_ULONG) -> Result<Template<'a>> {
    let mut read = Read::default();
    let count = usize::try_from(count).map_err(|_| Error::ArgumentsBad)?;
    require(count <= MAX_ATTRIBUTES && !(attributes.is_null() && count > 0), Error::ArgumentsBad)?;
    // SAFETY: the caller's promise; null only if there is nothing to read.
    let template = unsafe { attributes_at(attributes, count, MAX_TEMPLATE_DEPTH, &mut read) }?;
    if read.bytes > LONG {
        // The caller chose this length. The crates that copy the values abort the process if memory
        // is short, so check here.
        room_for(read.bytes.saturating_mul(COPIES))?;
    }
    Ok(template)
}

/// If the values of a template have more bytes than this, [`template`] checks that there is memory
/// for their copies. Usually only data objects have such long values.
const LONG: usize = 64 << 10;
/// The greatest number of copies of a template's values in memory while the object is created.
const COPIES: usize = 8;

/// The attributes of a template that were read, and the bytes of their values, with those of nested
/// templates.
#[derive(Default)]
struct Read {
    attributes: usize,
    bytes: usize,
}

/// Reads `count` attributes, and adds them to `read`. A limit on the depth is not enough: a
/// template that contains itself in each of its attributes would grow exponentially.
///
/// # Safety
///
/// As for [`template`]; `attributes` may be null only if `count` is 0.
unsafe fn attributes_at<'a>(
    attributes: *const CK_ATTRIBUTE,
    count: usize,
    depth: usize,
    read: &mut Read,
) -> Result<Template<'a>> {
    read.attributes += count;
    require(read.attributes <= MAX_ATTRIBUTES, Error::AttributeValueInvalid)?;
    let mut given = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: `index` is below the number of attributes that the caller promises.
        let attribute = unsafe { attributes.add(index).read_unaligned() };
        // SAFETY: the caller's promise, for the value of this attribute.
        let value = unsafe { value_of(&attribute, depth, read) }?;
        given.push(Given { id: attribute_type(attribute.type_), value });
    }
    Ok(Template(given))
}

/// Returns the type of an attribute. Two types have a second number: see [`TEMPLATES`].
pub(crate) fn attribute_type(given: CK_ATTRIBUTE_TYPE) -> AttributeType {
    let without_flag = given & !CKF_ARRAY_ATTRIBUTE;
    let is_second = matches!(without_flag, CKA_ENCAPSULATE_TEMPLATE | CKA_DECAPSULATE_TEMPLATE);
    AttributeType(wide(if is_second { without_flag } else { given }))
}

/// # Safety
///
/// As for [`template`].
unsafe fn value_of<'a>(attribute: &CK_ATTRIBUTE, depth: usize, read: &mut Read) -> Result<Raw<'a>> {
    let value = In(attribute.pValue.cast(), attribute.ulValueLen);
    if !TEMPLATES.contains(&wide(attribute.type_)) {
        // PKCS#11 3.2, CKR_ATTRIBUTE_VALUE_INVALID: an invalid value for a particular attribute in
        // a template. SAFETY: the caller's promise.
        let bytes = unsafe { value.bytes() }.map_err(|_| Error::AttributeValueInvalid)?;
        read.bytes = read.bytes.saturating_add(bytes.len());
        return Ok(Raw::Bytes(bytes));
    }
    let len = memory_len(value.1).map_err(|_| Error::AttributeValueInvalid)?;
    let whole = len.is_multiple_of(size_of::<CK_ATTRIBUTE>());
    require(whole && !(value.0.is_null() && len > 0) && depth != 0, Error::AttributeValueInvalid)?;
    // SAFETY: the caller's promise; null only if there is nothing to read.
    unsafe { attributes_at(value.0.cast(), len / size_of::<CK_ATTRIBUTE>(), depth - 1, read) }
        .map(Raw::Template)
}

/// Converts a length to `usize`. Fails with `ArgumentsBad` for half of the numbers: they are too
/// long for a slice, or, where `CK_ULONG` has 32 bits, negative ones such as
/// `CK_UNAVAILABLE_INFORMATION`.
#[inline]
fn memory_len(len: CK_ULONG) -> Result<usize> {
    c_long::try_from(len).map(|len| len.cast_unsigned() as usize).map_err(|_| Error::ArgumentsBad)
}

#[inline]
fn overlap(data: &[u8], buffer: *const u8, room: usize) -> bool {
    let (data_at, buffer_at) = (from_ref(data).cast::<u8>().addr(), buffer.addr());
    data_at < buffer_at.saturating_add(room) && buffer_at < data_at.saturating_add(data.len())
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use cryptoki_sys::{CKA_ID, CKA_LABEL, CKA_UNWRAP_TEMPLATE, CKA_VALUE, CKA_WRAP_TEMPLATE};

    use super::*;

    const HUGE: CK_ULONG = CK_ULONG::MAX;

    fn attribute(type_: CK_ATTRIBUTE_TYPE, value: *const u8, len: usize) -> CK_ATTRIBUTE {
        CK_ATTRIBUTE { type_, pValue: value.cast_mut().cast(), ulValueLen: length(len) }
    }

    fn array(type_: CK_ATTRIBUTE_TYPE, attributes: &[CK_ATTRIBUTE]) -> CK_ATTRIBUTE {
        attribute(type_, attributes.as_ptr().cast(), size_of_val(attributes))
    }

    fn parse(attributes: &[CK_ATTRIBUTE]) -> Result<Template<'_>> {
        // SAFETY: the attributes point to live memory, or to memory that must not be read.
        unsafe { template(attributes.as_ptr(), length(attributes.len())) }
    }

    fn transformed(
        data: In,
        pointer: *mut u8,
        len: &mut CK_ULONG,
        work: impl FnOnce(&[u8], Output<'_>) -> Result<usize>,
    ) -> Result<()> {
        // SAFETY: the tests pass live memory, or pointers that must not be followed.
        error_of(unsafe { transform(data, Out(pointer, len), work) })
    }

    fn error_of(outcome: Result<(), Failure>) -> Result<()> {
        outcome.map_err(|failure| match failure {
            Failure::Argument(error) | Failure::Token(error) => error,
        })
    }

    /// Writes the input reversed.
    fn reverse(data: &[u8], output: Output<'_>) -> Result<usize> {
        match output {
            Output::Length => Ok(data.len()),
            Output::Buffer(buffer) => {
                let needed = data.len();
                let place = buffer.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
                // Clear the output first, so that an unnoticed overlap would destroy the input.
                place.fill(0);
                place.iter_mut().zip(data.iter().rev()).for_each(|(to, from)| *to = *from);
                Ok(needed)
            }
        }
    }

    #[test]
    fn a_length_beyond_memory_is_refused() {
        let mut byte = 0;
        // SAFETY: refused before anything is read.
        assert_eq!(unsafe { In(&raw const byte, HUGE).bytes() }, Err(Error::ArgumentsBad));
        // SAFETY: refused before anything is written.
        assert!(unsafe { buffer(&raw mut byte, HUGE) }.is_err());
        let mut len = HUGE;
        let outcome = transformed(In(null(), 0), &raw mut byte, &mut len, |_, _| unreachable!());
        assert_eq!((outcome, len), (Err(Error::ArgumentsBad), HUGE));
    }

    #[test]
    fn other_errors_leave_the_length_unchanged() {
        let (mut buffer, mut len) = ([0; 8], 8);
        let fail = |_: &[u8], _: Output<'_>| Err(Error::DataLenRange);
        let outcome = transformed(In(null(), 0), buffer.as_mut_ptr(), &mut len, fail);
        assert_eq!((outcome, len), (Err(Error::DataLenRange), 8));
    }

    #[test]
    fn a_null_pointer_to_the_length_is_refused() {
        let mut buffer = [0; 8];
        // SAFETY: refused before anything is read or written.
        let outcome =
            unsafe { transform(In(null(), 0), Out(buffer.as_mut_ptr(), null_mut()), |_, _| unreachable!()) };
        assert_eq!(error_of(outcome), Err(Error::ArgumentsBad));
    }

    #[test]
    fn an_input_inside_the_output_buffer_is_kept() {
        let mut memory = *b"....abcd....";
        let mut len = 12;
        let start = memory.as_mut_ptr();
        let outcome = transformed(In(start.wrapping_add(4), 4), start, &mut len, |data, output| {
            let Output::Buffer(buffer) = output else { panic!("a buffer was given") };
            // The function may write to the whole buffer.
            buffer.fill(0);
            reverse(data, Output::Buffer(buffer))
        });
        assert_eq!((outcome, len, &memory), (Ok(()), 4, b"dcba\0\0\0\0\0\0\0\0"));
    }

    #[test]
    fn neighbours_do_not_overlap() {
        let memory = [0_u8; 8];
        let (left, right) = memory.split_at(4);
        assert!(!overlap(left, right.as_ptr(), 4));
        assert!(!overlap(right, left.as_ptr(), 4));
        assert!(overlap(right, left.as_ptr(), 5));
        assert!(!overlap(&[], left.as_ptr(), 4));
    }

    #[test]
    fn an_unaligned_length_is_read_and_written() {
        let mut memory = [0_u8; 2 * size_of::<CK_ULONG>()];
        let place = memory.as_mut_ptr().wrapping_add(1).cast::<CK_ULONG>();
        let mut buffer = [0; 4];
        // SAFETY: `place` lies inside `memory`.
        unsafe {
            place.write_unaligned(4);
            let reversed = transform(In(b"abc".as_ptr(), 3), Out(buffer.as_mut_ptr(), place), reverse);
            assert_eq!(error_of(reversed), Ok(()));
            assert_eq!((place.read_unaligned(), &buffer), (3, b"cba\0"));
        }
    }

    #[test]
    fn a_template_may_be_empty_but_not_null_or_too_long() {
        // SAFETY: nothing is read: the count is 0 or refused.
        let at_null = |count| unsafe { template(null(), count) }.map(|template| template.0.len());
        assert_eq!(at_null(0), Ok(0));
        assert_eq!(at_null(1), Err(Error::ArgumentsBad));
        let label = attribute(CKA_LABEL, null(), 0);
        // SAFETY: refused for its count.
        let endless = |count| unsafe { template(&raw const label, count) }.err();
        assert_eq!(endless(HUGE), Some(Error::ArgumentsBad));
        assert_eq!(endless(length(MAX_ATTRIBUTES + 1)), Some(Error::ArgumentsBad));
    }

    #[test]
    fn a_value_without_readable_memory_is_refused() {
        let unavailable = CK_ATTRIBUTE { ulValueLen: HUGE, ..attribute(CKA_LABEL, b"ca".as_ptr(), 0) };
        for wrong in [attribute(CKA_LABEL, null(), 1), unavailable] {
            assert_eq!(parse(&[wrong]).err(), Some(Error::AttributeValueInvalid));
        }
    }

    #[test]
    fn an_unaligned_template_is_read() {
        let given = [attribute(CKA_LABEL, b"ca".as_ptr(), 2), attribute(CKA_ID, b"1".as_ptr(), 1)];
        let mut memory = [0_u8; size_of::<[CK_ATTRIBUTE; 2]>() + 1];
        let place = memory.as_mut_ptr().wrapping_add(1).cast::<[CK_ATTRIBUTE; 2]>();
        // SAFETY: `place` lies inside `memory`, and the values live.
        let template = unsafe {
            place.write_unaligned(given);
            template(place.cast(), 2)
        };
        assert_eq!(template.expect("a template").bytes(AttributeType::ID), Some(&b"1"[..]));
    }

    #[test]
    fn a_nested_template_with_an_invalid_length_is_refused() {
        let inner = [attribute(CKA_LABEL, b"ca".as_ptr(), 2)];
        let cut = CK_ATTRIBUTE { ulValueLen: 7, ..array(CKA_WRAP_TEMPLATE, &inner) };
        let null = attribute(CKA_WRAP_TEMPLATE, null(), size_of::<CK_ATTRIBUTE>());
        let huge = CK_ATTRIBUTE { ulValueLen: HUGE, ..array(CKA_WRAP_TEMPLATE, &inner) };
        for wrong in [cut, null, huge] {
            assert_eq!(parse(&[wrong]).err(), Some(Error::AttributeValueInvalid));
        }
    }

    #[test]
    fn templates_nest_up_to_a_limit() {
        let mut levels = [[attribute(CKA_LABEL, b"ca".as_ptr(), 2)]; MAX_TEMPLATE_DEPTH + 2];
        for level in 1..levels.len() {
            levels[level] = [array(CKA_UNWRAP_TEMPLATE, &levels[level - 1])];
        }
        assert!(parse(&levels[MAX_TEMPLATE_DEPTH]).is_ok());
        let deeper = parse(&levels[MAX_TEMPLATE_DEPTH + 1]);
        assert_eq!(deeper.err(), Some(Error::AttributeValueInvalid));
    }

    #[test]
    fn a_template_that_exceeds_the_memory_is_refused() {
        let given = [attribute(CKA_VALUE, b"bytes".as_ptr(), 1 << 46)];
        // The value is not read.
        assert_eq!(parse(&given).err(), Some(Error::HostMemory));
    }

    #[test]
    fn a_template_that_contains_itself_is_refused() {
        let mut all = [attribute(CKA_WRAP_TEMPLATE, null(), 0); 64];
        let whole = array(CKA_WRAP_TEMPLATE, &all);
        all.fill(whole);
        assert_eq!(parse(&all).err(), Some(Error::AttributeValueInvalid));
    }
}
