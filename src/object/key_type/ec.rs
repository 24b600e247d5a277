//! Keys on curves (PKCS#11 3.2, "Elliptic Curve"): `CKA_EC_PARAMS`, `CKA_EC_POINT` and the scalar
//! or seed in `CKA_VALUE`. Their DER is that of RFC 5480 and RFC 5915 (EC) and RFC 8410 (Edwards
//! and Montgomery curves).

use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef, PrintableStringRef};
use der::{Decode, Encode};
use jeton_secret::Secret;
use pkcs8::PrivateKeyInfoRef;
use sec1::EcPrivateKey;

use super::encoding::{self, decoded, encoded, invalid};
use super::{Decoded, Encoded, Family, KeyTypeRow, Limited};
use crate::backend::{PairSpec, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::curve::{Group, NAMED_CURVES, NamedCurve, named_group};
use crate::mechanism::scheme::EdwardsCurve;
use crate::object::Attributes;
use crate::object::required::{CONFLICT, bytes, key_type, put_same, refused_in};
use crate::object::rule::{Default, Need, ObjectTypes, fixed, hidden, made};
use crate::object::value::{Kind, Value, unpadded};

const EC_PUBLIC: ObjectTypes = ObjectTypes::member(3);
const EDWARDS_PUBLIC: ObjectTypes = ObjectTypes::member(4);
const MONTGOMERY_PUBLIC: ObjectTypes = ObjectTypes::member(5);
const EC_PRIVATE: ObjectTypes = ObjectTypes::member(11);
const EDWARDS_PRIVATE: ObjectTypes = ObjectTypes::member(12);
const MONTGOMERY_PRIVATE: ObjectTypes = ObjectTypes::member(13);
const PUBLIC: ObjectTypes = EC_PUBLIC.or(EDWARDS_PUBLIC).or(MONTGOMERY_PUBLIC);
const PRIVATE: ObjectTypes = EC_PRIVATE.or(EDWARDS_PRIVATE).or(MONTGOMERY_PRIVATE);
/// RFC 5480, 2.1.1: `id-ecPublicKey`.
pub(in crate::object) const EC_PUBLIC_KEY: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

pub(super) const FAMILY: Family = Family {
    rows: &[
        KeyTypeRow {
            key_type: KeyType::EC,
            public: EC_PUBLIC,
            private: EC_PRIVATE,
            uses: &[A::SIGN, A::VERIFY, A::DERIVE],
            identifiers: &[EC_PUBLIC_KEY],
            place: |_| Ok(0),
            encode_public: |attributes, parts| {
                let curve = named_curve(attributes)?.oid;
                Ok((Some(curve.into()), parts.encoded().ok_or(Error::KeyTypeInconsistent)?.into()))
            },
            encode_private,
            decode_private,
            prepare: |attributes, provider| {
                put_curve(attributes)?;
                let (Some(given), Group::Ec(curve)) =
                    (attributes.bytes(A::EC_POINT), named_curve(attributes)?.group)
                else {
                    return Ok(());
                };
                let given = point(Group::Ec(curve), given)?;
                if given.first() != Some(&4) {
                    let point = provider.keys.uncompressed(curve, given)?;
                    attributes.put(A::EC_POINT, Value::Bytes(Secret::new(point)));
                }
                Ok(())
            },
            ..ON_CURVE
        },
        KeyTypeRow {
            key_type: KeyType::EC_EDWARDS,
            public: EDWARDS_PUBLIC,
            private: EDWARDS_PRIVATE,
            uses: &[A::SIGN, A::VERIFY],
            identifiers: &[
                ObjectIdentifier::new_unwrap("1.3.101.112"),
                ObjectIdentifier::new_unwrap("1.3.101.113"),
            ],
            ..ON_CURVE
        },
        KeyTypeRow {
            key_type: KeyType::EC_MONTGOMERY,
            public: MONTGOMERY_PUBLIC,
            private: MONTGOMERY_PRIVATE,
            uses: &[A::DERIVE],
            identifiers: &[
                ObjectIdentifier::new_unwrap("1.3.101.110"),
                ObjectIdentifier::new_unwrap("1.3.101.111"),
            ],
            ..ON_CURVE
        },
    ],
    rules: &[
        fixed(A::EC_PARAMS, Kind::Bytes, PUBLIC, Need::Must, Need::Must),
        made(A::EC_POINT, Kind::Bytes, PUBLIC),
        made(A::EC_PARAMS, Kind::Bytes, PRIVATE),
        // The standard has no point in a private key. Clients of NSS and OpenSC read one there.
        fixed(A::EC_POINT, Kind::Bytes, PRIVATE, Need::Never, Need::Never).or(Default::Computed),
        hidden(A::VALUE, Kind::Bytes, PRIVATE, Need::Must),
    ],
};

/// The columns that the key types have in common, with the DER of RFC 8410.
const ON_CURVE: KeyTypeRow = KeyTypeRow {
    size: A::EC_PARAMS,
    pair_spec: |public, _| {
        Ok(match named_curve(public)?.group {
            Group::Ec(curve) => PairSpec::Ec(curve),
            Group::Ed25519 => PairSpec::Ed25519,
            Group::Ed448 => PairSpec::Ed448,
            Group::X25519 => PairSpec::X25519,
            Group::X448 => PairSpec::X448,
        })
    },
    public_parts,
    private_parts,
    limited: |attributes| named_curve(attributes).map(|curve| Some(Limited::Curve(curve))),
    put_public,
    put_private: |attributes, _, parts| {
        let (group, scalar) = private_scalar(parts)?;
        put_same(attributes, A::EC_PARAMS, oid(group)?)?;
        attributes.put(A::VALUE, Value::Bytes(scalar));
        Ok(())
    },
    prepare: |attributes, _| put_curve(attributes),
    place: |attributes| Ok(usize::from(matches!(named_curve(attributes)?.group, Group::Ed448 | Group::X448))),
    encode_public: |_, parts| Ok((None, parts.encoded().ok_or(Error::KeyTypeInconsistent)?.into())),
    encode_private: |attributes, _| {
        let (_, scalar) = private_scalar(private_parts(attributes)?)?;
        Ok((None, encoded(&encoding::octets(&scalar)?)?))
    },
    decode_private: |info, _| {
        let oid = info.algorithm.oid.to_der().map_err(invalid)?;
        let scalar: &OctetStringRef = decoded(info.private_key.as_bytes())?;
        Ok(vec![
            (A::EC_PARAMS, Value::Bytes(Secret::new(oid))),
            (A::VALUE, Value::Bytes(scalar.as_bytes().into())),
        ])
    },
    ..KeyTypeRow::BASE
};

/// Writes the curve as its object identifier.
fn put_curve(attributes: &mut Attributes) -> Result<()> {
    let oid = named_curve(attributes)?.oid;
    attributes.put(A::EC_PARAMS, Value::Bytes(oid.into()));
    Ok(())
}

fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
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

fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    let (scalar, group) = (bytes(attributes, A::VALUE)?, named_curve(attributes)?.group);
    let exact = || of_len(scalar, group.point_len());
    Ok(match group {
        Group::Ec(curve) => PrivateParts::Ec { curve, scalar: padded(scalar, curve.len())? },
        Group::Ed25519 => PrivateParts::Ed25519 { seed: exact()? },
        Group::Ed448 => PrivateParts::Ed448 { seed: exact()? },
        Group::X25519 => PrivateParts::X25519 { scalar: exact()? },
        Group::X448 => PrivateParts::X448 { scalar: exact()? },
    })
}

/// Returns the curve that `CKA_EC_PARAMS` names by object identifier or printable string (PKCS#11
/// 3.2, "Elliptic Curve"). Fails with `CurveNotSupported` if the token does not support the curve
/// for this key type. Fails with `DomainParamsInvalid` for parameters in another form.
pub(crate) fn named_curve(attributes: &Attributes) -> Result<&'static NamedCurve> {
    let params = bytes(attributes, A::EC_PARAMS)?;
    let name = PrintableStringRef::from_der(params).ok();
    require(name.is_some() || <ObjectIdentifier>::from_der(params).is_ok(), Error::DomainParamsInvalid)?;
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

/// Returns the length of a public key on the key's curve.
pub(crate) fn point_len(attributes: &Attributes) -> Result<usize> {
    named_curve(attributes).map(|curve| curve.group.point_len())
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

fn public_point(parts: &PublicParts) -> Result<(Group, &[u8])> {
    Ok(match parts {
        PublicParts::Ec { curve, point } => (Group::Ec(*curve), &point[..]),
        PublicParts::Ed25519 { point } => (Group::Ed25519, &point[..]),
        PublicParts::Ed448 { point } => (Group::Ed448, &point[..]),
        PublicParts::X25519 { point } => (Group::X25519, &point[..]),
        PublicParts::X448 { point } => (Group::X448, &point[..]),
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// Returns the curve and the scalar or seed of a private key.
fn private_scalar(parts: PrivateParts) -> Result<(Group, Secret)> {
    Ok(match parts {
        PrivateParts::Ec { curve, scalar } => (Group::Ec(curve), scalar),
        PrivateParts::Ed25519 { seed } => (Group::Ed25519, seed),
        PrivateParts::Ed448 { seed } => (Group::Ed448, seed),
        PrivateParts::X25519 { scalar } => (Group::X25519, scalar),
        PrivateParts::X448 { scalar } => (Group::X448, scalar),
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// Sets the curve and the point of a public key. Fails with `TemplateInconsistent` if the template
/// has another curve or another point.
fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    let (group, point) = public_point(parts)?;
    if attributes.has(A::EC_PARAMS) && named_curve(attributes)?.group != group {
        return Err(refused_in(attributes, A::EC_PARAMS, CONFLICT, Error::TemplateInconsistent));
    }
    if attributes.bytes(A::EC_POINT).is_some_and(|given| self::point(group, given) != Ok(point)) {
        return Err(refused_in(attributes, A::EC_POINT, CONFLICT, Error::TemplateInconsistent));
    }
    attributes.put(A::EC_PARAMS, Value::Bytes(oid(group)?.into()));
    // A DER octet string, for every curve. For Edwards and Montgomery curves, PKCS#11 3.2,
    // "Elliptic Curve", defines bare bytes. PKCS#11 3.0 defined DER, and OpenSC's clients accept
    // only DER.
    attributes.put(A::EC_POINT, Value::Bytes(encoded(&encoding::octets(point)?)?));
    Ok(())
}

/// Encodes a private key with its public key.
fn encode_private(attributes: &Attributes, provider: &Provider) -> Result<Encoded> {
    let curve = named_curve(attributes)?.oid;
    let parts = private_parts(attributes)?;
    let public = provider.keys.private(&parts)?.public()?;
    let (_, scalar) = private_scalar(parts)?;
    let key = EcPrivateKey { private_key: &scalar, parameters: None, public_key: Some(point_of(&public)?) };
    Ok((Some(curve.into()), encoded(&key)?))
}

fn decode_private(info: &PrivateKeyInfoRef<'_>, _: usize) -> Result<Decoded> {
    let curve = info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?.to_der().map_err(invalid)?;
    let key: EcPrivateKey<'_> = decoded(info.private_key.as_bytes())?;
    // SEC 1, C.4: the key may name its curve again.
    require(key.parameters.is_none_or(|own| own.to_der().as_ref() == Ok(&curve)), Error::WrappedKeyInvalid)?;
    Ok(vec![
        (A::EC_PARAMS, Value::Bytes(Secret::new(curve))),
        (A::VALUE, Value::Bytes(key.private_key.into())),
    ])
}

/// Returns a scalar with leading zeros up to `len` bytes. Fails with `AttributeValueInvalid` if the
/// scalar without its leading zeros is longer than `len`.
pub(super) fn padded(scalar: &[u8], len: usize) -> Result<Secret> {
    let digits = unpadded(scalar);
    let mut out = Secret::zeroed(len);
    let start = len.checked_sub(digits.len()).ok_or(Error::AttributeValueInvalid)?;
    out[start..].copy_from_slice(digits);
    Ok(out)
}

/// Returns a private key of `len` bytes. Also accepts the key in a DER octet string (RFC 8410).
/// Fails with `AttributeValueInvalid` if the length is wrong.
fn of_len(bytes: &[u8], len: usize) -> Result<Secret> {
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
    let is_compressed = matches!(group, Group::Ec(curve) if bytes.len() == curve.len() + 1);
    if is_compressed || bytes.len() == group.point_len() {
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
    require(!bytes.is_empty(), Error::AttributeValueInvalid)?;
    Ok(<&OctetStringRef>::from_der(bytes).map_or(bytes, |octets| octets.as_bytes()))
}

fn oid(group: Group) -> Result<&'static [u8]> {
    named_group(group).map(|named| named.oid).ok_or(Error::GeneralError)
}
