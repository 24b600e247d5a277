//! The attributes of keys on curves: `CKA_EC_PARAMS`, `CKA_EC_POINT` and the scalar or seed in
//! `CKA_VALUE`.

use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef, PrintableStringRef};
use der::{Decode, Encode};

use crate::backend::{PrivateParts, PublicParts};
use crate::error::{Error, Result};
use crate::id::AttributeType as A;
use crate::mechanism::curve::{Group, NAMED_CURVES, NamedCurve, named_group};
use crate::mechanism::scheme::EdwardsCurve;
use crate::object::Attributes;
use crate::object::required::{bytes, key_type, put_same};
use crate::object::value::{Value, unpadded};
use crate::secret::Secret;

/// Returns the parts of a public key on a curve.
pub(in crate::object) fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    let group = named_curve(attributes)?.group;
    let point = point(group, bytes(attributes, A::EC_POINT)?)?;
    Ok(match group {
        Group::Ec(curve) => PublicParts::Ec { curve, point: point.to_vec() },
        Group::Ed25519 => PublicParts::Ed25519 { point: exact(point)? },
        Group::Ed448 => PublicParts::Ed448 { point: exact(point)? },
        Group::X25519 => PublicParts::X25519 { point: exact(point)? },
        Group::X448 => PublicParts::X448 { point: exact(point)? },
    })
}

/// Returns the parts of a private key on a curve.
pub(in crate::object) fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    let scalar = bytes(attributes, A::VALUE)?;
    Ok(match named_curve(attributes)?.group {
        Group::Ec(curve) => PrivateParts::Ec { curve, scalar: padded(scalar, curve.len())? },
        Group::Ed25519 => PrivateParts::Ed25519 { seed: fixed(scalar, 32)? },
        Group::Ed448 => PrivateParts::Ed448 { seed: fixed(scalar, 57)? },
        Group::X25519 => PrivateParts::X25519 { scalar: fixed(scalar, 32)? },
        Group::X448 => PrivateParts::X448 { scalar: fixed(scalar, 56)? },
    })
}

/// Returns the curve that `CKA_EC_PARAMS` names by object identifier or printable string (PKCS#11
/// 3.2, "Elliptic Curve"). Fails with `CurveNotSupported` if the token does not support the curve
/// for this key type. Fails with `DomainParamsInvalid` for parameters in another form.
pub(in crate::object) fn named_curve(attributes: &Attributes) -> Result<&'static NamedCurve> {
    let params = bytes(attributes, A::EC_PARAMS)?;
    let name = PrintableStringRef::from_der(params).ok();
    if name.is_none() && <ObjectIdentifier>::from_der(params).is_err() {
        return Err(Error::DomainParamsInvalid);
    }
    let key_type = key_type(attributes)?;
    NAMED_CURVES
        .iter()
        .filter(|curve| curve.key_type == key_type)
        .find(|curve| curve.oid == params || name.as_ref().is_some_and(|name| name.as_str() == curve.name))
        .ok_or(Error::CurveNotSupported)
}

/// Returns the curve of an EdDSA key, and Edwards25519 for a key of another type.
pub(crate) fn edwards_curve(attributes: &Attributes) -> EdwardsCurve {
    match named_curve(attributes) {
        Ok(curve) if curve.group == Group::Ed448 => EdwardsCurve::Edwards448,
        _ => EdwardsCurve::Edwards25519,
    }
}

/// Returns the length of a public key on the key's curve: an uncompressed point, or the encoding of
/// RFC 8032 or RFC 7748.
pub(crate) fn point_len(attributes: &Attributes) -> Result<usize> {
    Ok(match named_curve(attributes)?.group {
        Group::Ec(curve) => 1 + 2 * curve.len(),
        Group::Ed25519 | Group::X25519 => 32,
        Group::Ed448 => 57,
        Group::X448 => 56,
    })
}

/// Returns the point or u-coordinate of a public key for key agreement. Fails with
/// `KeyTypeInconsistent` for a key that has no key agreement.
pub(crate) fn point_of(parts: &PublicParts) -> Result<&[u8]> {
    match parts {
        PublicParts::Ec { point, .. } => Ok(point),
        PublicParts::X25519 { point } => Ok(point),
        PublicParts::X448 { point } => Ok(point),
        _ => Err(Error::KeyTypeInconsistent),
    }
}

/// Sets the curve and the point of a public key. Fails with `TemplateInconsistent` if the template
/// has another curve or another point.
pub(in crate::object) fn put_point(attributes: &mut Attributes, group: Group, point: &[u8]) -> Result<()> {
    if attributes.has(A::EC_PARAMS) && named_curve(attributes)?.group != group {
        return Err(Error::TemplateInconsistent);
    }
    if attributes.bytes(A::EC_POINT).is_some_and(|given| self::point(group, given) != Ok(point)) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::EC_PARAMS, Value::Bytes(oid(group)?.into()));
    attributes.put(A::EC_POINT, Value::Bytes(written_point(point)?));
    Ok(())
}

/// Returns the point as a DER octet string, for every curve. For Edwards and Montgomery curves,
/// PKCS#11 3.2, "Elliptic Curve", defines bare bytes. PKCS#11 3.0 defined DER, and OpenSC's clients
/// accept only DER.
fn written_point(point: &[u8]) -> Result<Secret> {
    let der = OctetStringRef::new(point).and_then(|octets| octets.to_der());
    der.map(Secret::new).map_err(|_| Error::GeneralError)
}

/// Sets the curve and the scalar or seed of a private key.
pub(in crate::object) fn put_scalar(attributes: &mut Attributes, group: Group, scalar: Secret) -> Result<()> {
    put_same(attributes, A::EC_PARAMS, oid(group)?)?;
    attributes.put(A::VALUE, Value::Bytes(scalar));
    Ok(())
}

/// Returns a scalar with leading zeros up to `len` bytes. Fails with `AttributeValueInvalid` if the
/// scalar without its leading zeros is longer than `len`.
fn padded(scalar: &[u8], len: usize) -> Result<Secret> {
    let digits = unpadded(scalar);
    let mut out = Secret::zeroed(len);
    let start = len.checked_sub(digits.len()).ok_or(Error::AttributeValueInvalid)?;
    out[start..].copy_from_slice(digits);
    Ok(out)
}

/// Returns a private key of `len` bytes. Also accepts the key in a DER octet string (RFC 8410).
/// Fails with `AttributeValueInvalid` if the length is wrong.
fn fixed(bytes: &[u8], len: usize) -> Result<Secret> {
    let inner = if bytes.len() == len { bytes } else { octets(bytes)? };
    if inner.len() == len { Ok(inner.into()) } else { Err(Error::AttributeValueInvalid) }
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::AttributeValueInvalid)
}

/// Returns the point in a `CKA_EC_POINT`: a DER octet string or, from some callers, a DER bit
/// string or the bare point. Only the length distinguishes the bare point from a DER octet string.
/// Both begin with 04, and in one of 256 points the next byte equals the length byte of DER.
fn point(group: Group, bytes: &[u8]) -> Result<&[u8]> {
    if group.has_point_len(bytes.len()) {
        return Ok(bytes);
    }
    match BitStringRef::from_der(bytes).ok().and_then(|bits| bits.as_bytes()) {
        Some(point) => Ok(point),
        None => octets(bytes),
    }
}

/// Returns the content of a DER octet string, and bytes in any other form unchanged. Fails with
/// `AttributeValueInvalid` if `bytes` is empty.
pub(crate) fn octets(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.is_empty() {
        return Err(Error::AttributeValueInvalid);
    }
    Ok(<&OctetStringRef>::from_der(bytes).map_or(bytes, |octets| octets.as_bytes()))
}

fn oid(group: Group) -> Result<&'static [u8]> {
    named_group(group).map(|named| named.oid).ok_or(Error::GeneralError)
}
