//! Parts of keys in DER. Encoding fails with `KeyNotWrappable`, and decoding with
//! `WrappedKeyInvalid`.

use der::asn1::{OctetStringRef, UintRef};
use der::{Choice, Decode, DecodeValue, Encode};
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;

use super::Decoded;
use crate::error::{Error, Result};
use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::value::Value;

/// `NULL`, the parameters of an algorithm that has none.
pub(super) const NULL: [u8; 2] = [5, 0];

/// Returns an attribute that the encoding of a private key needs.
pub(super) fn part(attributes: &Attributes, id: A) -> Result<&[u8]> {
    attributes.bytes(id).ok_or(Error::KeyNotWrappable)
}

pub(super) fn integer(number: &[u8]) -> Result<Secret> {
    encoded(&UintRef::new(number).map_err(wrong)?)
}

/// Encodes a sequence of integers.
pub(super) fn integers<'a>(numbers: impl IntoIterator<Item = &'a [u8]>) -> Result<Secret> {
    let numbers: der::Result<Vec<_>> = numbers.into_iter().map(UintRef::new).collect();
    encoded(&numbers.map_err(wrong)?)
}

pub(in crate::object) fn octets(bytes: &[u8]) -> Result<&OctetStringRef> {
    OctetStringRef::new(bytes).map_err(wrong)
}

/// Encodes a value into memory that is wiped on drop. The buffer has its final size from the start:
/// growing it would leave copies of the key.
pub(in crate::object) fn encoded(value: &impl Encode) -> Result<Secret> {
    let len = value.encoded_len().and_then(usize::try_from).map_err(wrong)?;
    let mut out = Secret::zeroed(len);
    value.encode_to_slice(&mut out).map_err(wrong)?;
    Ok(out)
}

pub(super) fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    T::from_der(bytes).map_err(invalid)
}

pub(super) fn parameters<'a, T: Choice<'a> + DecodeValue<'a>>(info: &PrivateKeyInfoRef<'a>) -> Result<T> {
    info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?.decode_as().map_err(invalid)
}

/// Returns attributes that have these integers as values.
pub(super) fn named<const N: usize>(ids: [A; N], numbers: [UintRef<'_>; N]) -> Decoded {
    let value = |number: UintRef<'_>| Value::Bytes(number.as_bytes().into());
    ids.into_iter().zip(numbers.map(value)).collect()
}

pub(in crate::object) fn wrong<E>(_: E) -> Error {
    Error::KeyNotWrappable
}

pub(in crate::object) fn invalid<E>(_: E) -> Error {
    Error::WrappedKeyInvalid
}
