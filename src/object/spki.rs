//! A public key as SubjectPublicKeyInfo (RFC 5280, 4.1.2.7): the value of `CKA_PUBLIC_KEY_INFO`.
//! The row of its key type encodes the key inside.

use der::asn1::{AnyRef, BitStringRef, OctetStringRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use pkcs8::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use super::Attributes;
use super::key_type::KeyTypeRow;
use crate::backend::PublicParts;
use crate::error::{Error, Result};

/// Returns the DER of a public key. `attributes` are those of the public or private key.
pub(crate) fn encode(attributes: &Attributes, parts: &PublicParts) -> Result<Vec<u8>> {
    let row = KeyTypeRow::of_object(attributes)?;
    let place = (row.place)(attributes).map_err(wrong)?;
    let oid = *row.identifiers.get(place).ok_or(Error::AttributeValueInvalid)?;
    let (parameters, key) = (row.encode_public)(attributes, parts).map_err(wrong)?;
    let parameters = parameters.as_deref().map(AnyRef::from_der).transpose().map_err(wrong)?;
    let algorithm = AlgorithmIdentifierRef { oid, parameters };
    let subject_public_key = BitStringRef::from_bytes(&key).map_err(wrong)?;
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().map_err(wrong)
}

/// Returns the DER of the public key in an X.509 certificate (RFC 5280, 4.1). It is the seventh
/// field, or the sixth if the certificate has no version field.
pub(crate) fn of_certificate(certificate: &[u8]) -> Result<Vec<u8>> {
    let outer = AnyRef::from_der(certificate).map_err(wrong)?;
    let mut outer = SliceReader::new(sequence(&outer)?).map_err(wrong)?;
    let inner = AnyRef::decode(&mut outer).map_err(wrong)?;
    let mut fields = SliceReader::new(sequence(&inner)?).map_err(wrong)?;
    let versioned = matches!(Tag::peek(&fields).map_err(wrong)?, Tag::ContextSpecific { .. });
    for _ in 0..5 + usize::from(versioned) {
        AnyRef::decode(&mut fields).map_err(wrong)?;
    }
    let key = fields.tlv_bytes().map_err(wrong)?;
    SubjectPublicKeyInfoRef::from_der(key).map_err(wrong)?;
    Ok(key.to_vec())
}

/// Returns the point of a key on a curve as `CKA_EC_POINT` has it: the DER of an octet string.
pub(super) fn point(info: &[u8]) -> Result<Vec<u8>> {
    let info = SubjectPublicKeyInfoRef::from_der(info).map_err(wrong)?;
    OctetStringRef::new(info.subject_public_key.raw_bytes()).and_then(|point| point.to_der()).map_err(wrong)
}

fn sequence<'a>(any: &AnyRef<'a>) -> Result<&'a [u8]> {
    if any.tag() == Tag::Sequence { Ok(any.value()) } else { Err(Error::AttributeValueInvalid) }
}

fn wrong<E>(_: E) -> Error {
    Error::AttributeValueInvalid
}
