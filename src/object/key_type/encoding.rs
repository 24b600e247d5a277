//! Parts of keys in DER. Encoding fails with `KeyNotWrappable`, and decoding with
//! `WrappedKeyInvalid`.

use der::asn1::{OctetStringRef, UintRef};
use der::{Choice, Decode, DecodeValue, Encode};
use pkcs8::PrivateKeyInfoRef;

use crate::error::{Error, Result};
use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::value::Value;
use crate::secret::Secret;

/// `NULL`, the parameters of an algorithm that has none.
pub(super) const NULL: [u8; 2] = [5, 0];

/// Returns an attribute that the encoding of a private key needs.
pub(super) fn part(attributes: &Attributes, id: A) -> Result<&[u8]> {
    attributes.bytes(id).ok_or(Error::KeyNotWrappable)
}

pub(super) fn integer(bytes: &[u8]) -> Result<UintRef<'_>> {
    UintRef::new(bytes).map_err(wrong)
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

/// Encodes a value that is not secret.
pub(super) fn public(value: &impl Encode) -> Result<Vec<u8>> {
    value.to_der().map_err(wrong)
}

pub(super) fn decoded<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    T::from_der(bytes).map_err(invalid)
}

/// Decodes the parameters of an algorithm.
pub(super) fn parameters<'a, T>(info: &PrivateKeyInfoRef<'a>) -> Result<T>
where
    T: Choice<'a> + DecodeValue<'a>,
{
    info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?.decode_as().map_err(invalid)
}

/// Returns an attribute whose value is an integer.
pub(super) fn number(id: A, integer: UintRef<'_>) -> (A, Value) {
    (id, Value::Bytes(integer.as_bytes().into()))
}

pub(in crate::object) fn wrong<E>(_: E) -> Error {
    Error::KeyNotWrappable
}

pub(in crate::object) fn invalid<E>(_: E) -> Error {
    Error::WrappedKeyInvalid
}
