//! A private key as PKCS #8 (RFC 5208, RFC 5958): the form in which it is wrapped. The row of its
//! key type encodes the key inside.

use der::asn1::AnyRef;
use der::{Decode, Encode, Header, Tag};
use jeton_secret::Secret;
use pkcs8::{AlgorithmIdentifierRef, PrivateKeyInfoRef, SubjectPublicKeyInfoRef};
use sec1::EcPrivateKey;
use subtle::ConstantTimeEq;

use super::Attributes;
use super::key::private_parts;
use super::key_type::KeyTypeRow;
use super::key_type::ec::EC_PUBLIC_KEY;
use super::key_type::encoding::{encoded, invalid, octets, wrong};
use super::spki;
use super::value::Value;
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::AttributeType as A;

/// Encodes a private key object as DER, a key on an EC curve with its public key. Fails with
/// `KeyNotWrappable` if the object lacks a part of the encoding.
pub(crate) fn encode(attributes: &Attributes, provider: &Provider) -> Result<Secret> {
    let row = KeyTypeRow::of_object(attributes).map_err(|_| Error::GeneralError)?;
    let oid = *row.identifiers.get((row.place)(attributes)?).ok_or(Error::GeneralError)?;
    let (parameters, key) = (row.encode_private)(attributes, provider)?;
    let parameters = parameters.as_deref().map(AnyRef::from_der).transpose().map_err(wrong)?;
    encoded(&PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid, parameters }, octets(&key)?))
}

/// Returns whether the bytes begin like a private key of this length, in a time that does not
/// depend on them.
pub(crate) fn has_header(bytes: &[u8]) -> bool {
    let header = (2..=6).find_map(|len| {
        let header = Header::new(Tag::Sequence, bytes.len().checked_sub(len)?.try_into().ok()?);
        header.to_der().ok().filter(|der| der.len() == len)
    });
    // The version, a number of one byte, follows.
    let begins =
        |header: Vec<u8>| Some(bytes.get(..header.len() + 2)?.ct_eq(&[&header, &[2, 1][..]].concat()));
    header.and_then(begins).is_some_and(bool::from)
}

/// Decodes the DER of a private key to attributes, with `CKA_KEY_TYPE` first. Fails with
/// `WrappedKeyInvalid` if the DER is invalid or the type of the key is unknown.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(A, Value)>> {
    let info = PrivateKeyInfoRef::from_der(bytes).map_err(invalid)?;
    let (row, place) = KeyTypeRow::identified(info.algorithm.oid).ok_or(Error::WrappedKeyInvalid)?;
    let mut attributes = (row.decode_private)(&info, place)?;
    attributes.insert(0, (A::KEY_TYPE, Value::Number(row.key_type.0)));
    Ok(attributes)
}

/// Fails with `WrappedKeyInvalid` if the DER of a private key names a public key, and it belongs to
/// another private key than these attributes.
pub(crate) fn check_public(bytes: &[u8], attributes: &Attributes, provider: &Provider) -> Result<()> {
    let info = PrivateKeyInfoRef::from_der(bytes).map_err(invalid)?;
    let of_curve = match info.algorithm.oid {
        EC_PUBLIC_KEY => EcPrivateKey::from_der(info.private_key.as_bytes()).map_err(invalid)?.public_key,
        _ => None,
    };
    let named: Vec<_> = of_curve.into_iter().chain(info.public_key.map(|key| key.raw_bytes())).collect();
    if named.is_empty() {
        return Ok(());
    }
    let public = provider.keys.private(&private_parts(attributes)?)?.public()?;
    // RFC 5958, 2: the bit string is that of SubjectPublicKeyInfo.
    let public = spki::encode(attributes, &public).map_err(invalid)?;
    let own = SubjectPublicKeyInfoRef::from_der(&public).map_err(invalid)?.subject_public_key.raw_bytes();
    // A point may be compressed or hybrid. Then its first byte has the parity of the last one (SEC
    // 1, 2.3.3).
    let same = |named: &[u8]| match (named, own) {
        ([form @ (2 | 3), x @ ..], [4, point @ .., last]) => {
            point.starts_with(x) && point.len() + 1 == 2 * x.len() && form & 1 == last & 1
        }
        ([form @ (6 | 7), named @ ..], [4, own @ .., last]) => {
            named.starts_with(own) && named[own.len()..] == [*last] && form & 1 == last & 1
        }
        _ => named == own,
    };
    if named.into_iter().all(same) { Ok(()) } else { Err(Error::WrappedKeyInvalid) }
}
