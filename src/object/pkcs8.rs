//! A private key as PKCS #8 (RFC 5208, RFC 5958): the form in which it is wrapped.
//!
//! The key inside is encoded as in RFC 8017 (RSA), RFC 3279 (DSA), PKCS #3 (Diffie-Hellman), RFC
//! 5915 (EC) and RFC 8410 (Edwards and Montgomery curves). Keys with a parameter set follow RFC
//! 9881 (ML-DSA), RFC 9935 (ML-KEM) and RFC 9909 (SLH-DSA).

use der::asn1::{AnyRef, ContextSpecific, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Decode, Encode, Reader, Sequence, SliceReader, Tag, TagMode, TagNumber};
use pkcs1::RsaPrivateKeyRef;
use pkcs8::{AlgorithmIdentifierRef, PrivateKeyInfoRef};
use sec1::EcPrivateKey;

use super::Attributes;
use super::key::{dsa_group, private_parts};
use super::key_type::ec::{named_curve, point_of};
use super::value::Value;
use crate::backend::{DsaGroup, PrivateParts, Provider, PublicParts};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::curve::NAMED_CURVES;
use crate::secret::Secret;

pub(super) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(super) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// RFC 3279, 2.3.2: `id-dsa`.
pub(super) const DSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10040.4.1");

/// PKCS #3, 9: `dhKeyAgreement`.
pub(super) const DH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.3.1");

/// The keys that have a parameter set: key type, `CKA_PARAMETER_SET`, object identifier.
const SETS: &[(KeyType, u64, ObjectIdentifier)] = &[
    (KeyType::ML_DSA, 1, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.17")),
    (KeyType::ML_DSA, 2, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.18")),
    (KeyType::ML_DSA, 3, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.19")),
    (KeyType::ML_KEM, 1, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.1")),
    (KeyType::ML_KEM, 2, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.2")),
    (KeyType::ML_KEM, 3, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.3")),
    // RFC 9909 numbers the SHA2 sets before the SHAKE sets. PKCS#11 alternates between them.
    (KeyType::SLH_DSA, 1, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.20")),
    (KeyType::SLH_DSA, 3, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.21")),
    (KeyType::SLH_DSA, 5, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.22")),
    (KeyType::SLH_DSA, 7, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.23")),
    (KeyType::SLH_DSA, 9, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.24")),
    (KeyType::SLH_DSA, 11, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.25")),
    (KeyType::SLH_DSA, 2, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.26")),
    (KeyType::SLH_DSA, 4, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.27")),
    (KeyType::SLH_DSA, 6, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.28")),
    (KeyType::SLH_DSA, 8, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.29")),
    (KeyType::SLH_DSA, 10, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.30")),
    (KeyType::SLH_DSA, 12, ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.31")),
];

/// The seed and the expanded key of ML-DSA and ML-KEM: the choice `both` of RFC 9881 and RFC 9935.
#[derive(Sequence)]
struct Both<'a> {
    seed: &'a OctetStringRef,
    expanded: &'a OctetStringRef,
}

/// PKCS #3, 9: `DHParameter`.
#[derive(Sequence)]
struct DhParameter<'a> {
    prime: UintRef<'a>,
    base: UintRef<'a>,
    #[asn1(optional = "true")]
    private_value_length: Option<u32>,
}

/// RFC 3279, 2.3.2: `Dss-Parms`.
#[derive(Sequence)]
struct DssParms<'a> {
    prime: UintRef<'a>,
    subprime: UintRef<'a>,
    base: UintRef<'a>,
}

/// Encodes a private key object as DER, a key on an EC curve with its public key. Fails with
/// `KeyNotWrappable` if the object lacks a part of the encoding.
pub(crate) fn encode(attributes: &Attributes, provider: &Provider) -> Result<Secret> {
    let key_type = attributes.number(A::KEY_TYPE).map(KeyType).ok_or(Error::GeneralError)?;
    let group = match key_type {
        KeyType::DH => dh_parameter(attributes)?,
        KeyType::DSA => dss_parms(&dsa_group(attributes).map_err(wrong)?)?,
        _ => Secret::default(),
    };
    let (oid, parameters, inner) = match key_type {
        KeyType::DH | KeyType::DSA => {
            let value = UintRef::new(value(attributes)?).map_err(wrong)?;
            let oid = if key_type == KeyType::DH { DH } else { DSA };
            (oid, Some(AnyRef::from_der(&group).map_err(wrong)?), encoded(&value)?)
        }
        KeyType::RSA => (RSA, Some(AnyRef::NULL), rsa(attributes)?),
        KeyType::EC => {
            let curve = AnyRef::from_der(named_curve(attributes)?.oid).map_err(wrong)?;
            let scalar = scalar(attributes)?;
            let public = provider.keys.private(&private_parts(attributes)?)?.public()?;
            let key =
                EcPrivateKey { private_key: &scalar, parameters: None, public_key: Some(point_of(&public)?) };
            (EC, Some(curve), encoded(&key)?)
        }
        KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => {
            let oid = ObjectIdentifier::from_der(named_curve(attributes)?.oid).map_err(wrong)?;
            (oid, None, encoded(&octets(&scalar(attributes)?)?)?)
        }
        _ => {
            let set = attributes.number(A::PARAMETER_SET).ok_or(Error::GeneralError)?;
            (set_identifier(key_type, set)?, None, with_set(attributes, key_type)?)
        }
    };
    encoded(&PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid, parameters }, octets(&inner)?))
}

/// Returns the object identifier of keys with this parameter set.
pub(super) fn set_identifier(key_type: KeyType, set: u64) -> Result<ObjectIdentifier> {
    let row = SETS.iter().find(|(known, number, _)| *known == key_type && *number == set);
    row.map(|(_, _, oid)| *oid).ok_or(Error::GeneralError)
}

/// Decodes the DER of a private key to attributes, with `CKA_KEY_TYPE` first. Fails with
/// `WrappedKeyInvalid` if the DER is invalid or the type of the key is unknown.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<(A, Value)>> {
    let info = PrivateKeyInfoRef::from_der(bytes).map_err(invalid)?;
    let (oid, key) = (info.algorithm.oid, info.private_key.as_bytes());
    if oid == RSA {
        return rsa_attributes(key);
    }
    if oid == EC {
        let curve = info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?.to_der().map_err(invalid)?;
        let key = EcPrivateKey::from_der(key).map_err(invalid)?;
        return Ok(vec![
            (A::KEY_TYPE, Value::Number(KeyType::EC.0)),
            (A::EC_PARAMS, Value::Bytes(Secret::new(curve))),
            (A::VALUE, Value::Bytes(key.private_key.into())),
        ]);
    }
    if oid == DSA {
        return dsa_attributes(info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?, key);
    }
    if oid == DH {
        return dh_attributes(info.algorithm.parameters.ok_or(Error::WrappedKeyInvalid)?, key);
    }
    if let Some((key_type, set, _)) = SETS.iter().find(|(_, _, known)| *known == oid) {
        return set_attributes(*key_type, *set, key);
    }
    let der = oid.to_der().map_err(invalid)?;
    let curve = NAMED_CURVES.iter().find(|curve| curve.oid == der).ok_or(Error::WrappedKeyInvalid)?;
    let scalar = <&OctetStringRef>::from_der(key).map_err(invalid)?;
    Ok(vec![
        (A::KEY_TYPE, Value::Number(curve.key_type.0)),
        (A::EC_PARAMS, Value::Bytes(curve.oid.into())),
        (A::VALUE, Value::Bytes(scalar.as_bytes().into())),
    ])
}

/// Fails with `WrappedKeyInvalid` if the DER of a private key names a public key, and it belongs to
/// another private key than these attributes. RSA, DSA and Diffie-Hellman have their public numbers
/// among the private ones.
pub(crate) fn check_public(bytes: &[u8], attributes: &Attributes, provider: &Provider) -> Result<()> {
    let info = PrivateKeyInfoRef::from_der(bytes).map_err(invalid)?;
    let of_curve = match info.algorithm.oid {
        EC => EcPrivateKey::from_der(info.private_key.as_bytes()).map_err(invalid)?.public_key,
        _ => None,
    };
    let named: Vec<_> = of_curve.into_iter().chain(info.public_key.map(|key| key.raw_bytes())).collect();
    if named.is_empty() {
        return Ok(());
    }
    let public = provider.keys.private(&private_parts(attributes)?)?.public()?;
    let own: &[u8] = match &public {
        PublicParts::Ec { point, .. } => point,
        PublicParts::Ed25519 { point } | PublicParts::X25519 { point } => point,
        PublicParts::Ed448 { point } => point,
        PublicParts::X448 { point } => point,
        PublicParts::MlDsa { key, .. } | PublicParts::MlKem { key, .. } | PublicParts::SlhDsa { key, .. } => {
            key
        }
        PublicParts::Rsa { .. } | PublicParts::Dsa { .. } | PublicParts::Dh { .. } => return Ok(()),
    };
    // A point may be compressed. Then its first byte has the parity of the last one (SEC 1, 2.3.3).
    let same = |named: &[u8]| match (named, own) {
        ([form @ (2 | 3), x @ ..], [4, point @ .., last]) => {
            point.starts_with(x) && point.len() + 1 == 2 * x.len() && form & 1 == last & 1
        }
        _ => named == own,
    };
    if named.into_iter().all(same) { Ok(()) } else { Err(Error::WrappedKeyInvalid) }
}

fn dh_parameter(attributes: &Attributes) -> Result<Secret> {
    let part = |id| attributes.bytes(id).ok_or(Error::KeyNotWrappable);
    let bits = attributes.number(A::VALUE_BITS).and_then(|bits| u32::try_from(bits).ok());
    dh_group(part(A::PRIME)?, part(A::BASE)?, bits)
}

/// Encodes a group as `DHParameter`, with the length of its private values if `bits` has one.
pub(super) fn dh_group(prime: &[u8], base: &[u8], bits: Option<u32>) -> Result<Secret> {
    let part = |integer| UintRef::new(integer).map_err(wrong);
    encoded(&DhParameter { prime: part(prime)?, base: part(base)?, private_value_length: bits })
}

/// Encodes domain parameters of DSA as `Dss-Parms`.
pub(super) fn dss_parms(group: &DsaGroup) -> Result<Secret> {
    let [prime, subprime, base] =
        [&group.prime, &group.subprime, &group.base].map(|part| UintRef::new(part).map_err(wrong));
    encoded(&DssParms { prime: prime?, subprime: subprime?, base: base? })
}

fn dsa_attributes(group: AnyRef<'_>, key: &[u8]) -> Result<Vec<(A, Value)>> {
    let group: DssParms<'_> = group.decode_as().map_err(invalid)?;
    let value = UintRef::from_der(key).map_err(invalid)?;
    let part = |part: UintRef<'_>| Value::Bytes(part.as_bytes().into());
    Ok(vec![
        (A::KEY_TYPE, Value::Number(KeyType::DSA.0)),
        (A::PRIME, part(group.prime)),
        (A::SUBPRIME, part(group.subprime)),
        (A::BASE, part(group.base)),
        (A::VALUE, part(value)),
    ])
}

fn dh_attributes(group: AnyRef<'_>, key: &[u8]) -> Result<Vec<(A, Value)>> {
    let group: DhParameter<'_> = group.decode_as().map_err(invalid)?;
    let value = UintRef::from_der(key).map_err(invalid)?;
    let part = |part: UintRef<'_>| Value::Bytes(part.as_bytes().into());
    Ok(vec![
        (A::KEY_TYPE, Value::Number(KeyType::DH.0)),
        (A::PRIME, part(group.prime)),
        (A::BASE, part(group.base)),
        (A::VALUE, part(value)),
    ])
}

fn rsa(attributes: &Attributes) -> Result<Secret> {
    let part = |id| UintRef::new(attributes.bytes(id).ok_or(Error::KeyNotWrappable)?).map_err(wrong);
    encoded(&RsaPrivateKeyRef {
        modulus: part(A::MODULUS)?,
        public_exponent: part(A::PUBLIC_EXPONENT)?,
        private_exponent: part(A::PRIVATE_EXPONENT)?,
        prime1: part(A::PRIME_1)?,
        prime2: part(A::PRIME_2)?,
        exponent1: part(A::EXPONENT_1)?,
        exponent2: part(A::EXPONENT_2)?,
        coefficient: part(A::COEFFICIENT)?,
        other_prime_infos: None,
    })
}

fn rsa_attributes(key: &[u8]) -> Result<Vec<(A, Value)>> {
    let key = RsaPrivateKeyRef::from_der(key).map_err(invalid)?;
    let part = |part: UintRef<'_>| Value::Bytes(part.as_bytes().into());
    Ok(vec![
        (A::KEY_TYPE, Value::Number(KeyType::RSA.0)),
        (A::MODULUS, part(key.modulus)),
        (A::PUBLIC_EXPONENT, part(key.public_exponent)),
        (A::PRIVATE_EXPONENT, part(key.private_exponent)),
        (A::PRIME_1, part(key.prime1)),
        (A::PRIME_2, part(key.prime2)),
        (A::EXPONENT_1, part(key.exponent1)),
        (A::EXPONENT_2, part(key.exponent2)),
        (A::COEFFICIENT, part(key.coefficient)),
    ])
}

fn with_set(attributes: &Attributes, key_type: KeyType) -> Result<Secret> {
    let key = value(attributes)?;
    match attributes.bytes(A::SEED) {
        Some(seed) => encoded(&Both { seed: octets(seed)?, expanded: octets(key)? }),
        None if key_type == KeyType::SLH_DSA => Ok(key.into()),
        None => encoded(&octets(key)?),
    }
}

/// Decodes a key that has a parameter set. An SLH-DSA key has no DER header. The other keys are an
/// ASN.1 choice of seed, expanded key, or both.
fn set_attributes(key_type: KeyType, set: u64, key: &[u8]) -> Result<Vec<(A, Value)>> {
    let mut attributes =
        vec![(A::KEY_TYPE, Value::Number(key_type.0)), (A::PARAMETER_SET, Value::Number(set))];
    if key_type == KeyType::SLH_DSA {
        attributes.push((A::VALUE, Value::Bytes(key.into())));
        return Ok(attributes);
    }
    let tag = Tag::peek(&SliceReader::new(key).map_err(invalid)?).map_err(invalid)?;
    let (seed, expanded) = match tag {
        Tag::Sequence => {
            let both = Both::from_der(key).map_err(invalid)?;
            (Some(both.seed), Some(both.expanded))
        }
        Tag::OctetString => (None, Some(<&OctetStringRef>::from_der(key).map_err(invalid)?)),
        _ => (Some(bare_seed(key)?), None),
    };
    let put = |id, octets: &OctetStringRef| (id, Value::Bytes(octets.as_bytes().into()));
    attributes.extend(seed.map(|seed| put(A::SEED, seed)));
    attributes.extend(expanded.map(|expanded| put(A::VALUE, expanded)));
    Ok(attributes)
}

/// Decodes `seed [0] IMPLICIT OCTET STRING`.
fn bare_seed(key: &[u8]) -> Result<&OctetStringRef> {
    let mut reader = SliceReader::new(key).map_err(invalid)?;
    let seed =
        ContextSpecific::<&OctetStringRef>::decode_implicit(&mut reader, TagNumber(0)).map_err(invalid)?;
    match seed {
        Some(seed) if reader.is_finished() && seed.tag_mode == TagMode::Implicit => Ok(seed.value),
        _ => Err(Error::WrappedKeyInvalid),
    }
}

/// Returns the scalar or seed in the full length of its curve. `CKA_VALUE` may be shorter, or a DER
/// octet string.
fn scalar(attributes: &Attributes) -> Result<Secret> {
    match private_parts(attributes)? {
        PrivateParts::Ec { scalar, .. } | PrivateParts::X25519 { scalar } | PrivateParts::X448 { scalar } => {
            Ok(scalar)
        }
        PrivateParts::Ed25519 { seed } | PrivateParts::Ed448 { seed } => Ok(seed),
        _ => Err(Error::GeneralError),
    }
}

fn value(attributes: &Attributes) -> Result<&[u8]> {
    attributes.bytes(A::VALUE).ok_or(Error::KeyNotWrappable)
}

fn octets(bytes: &[u8]) -> Result<&OctetStringRef> {
    OctetStringRef::new(bytes).map_err(wrong)
}

/// Encodes a value as DER into memory that is wiped on drop. The buffer has its final size from the
/// start: growing it would leave copies of the key.
fn encoded(value: &impl Encode) -> Result<Secret> {
    let len = value.encoded_len().and_then(usize::try_from).map_err(wrong)?;
    let mut out = Secret::zeroed(len);
    value.encode_to_slice(&mut out).map_err(wrong)?;
    Ok(out)
}

fn wrong<E>(_: E) -> Error {
    Error::KeyNotWrappable
}

fn invalid<E>(_: E) -> Error {
    Error::WrappedKeyInvalid
}
