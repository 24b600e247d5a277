//! Composite ML-DSA keys (draft-ietf-lamps-pq-composite-sigs). `CKA_PARAMETER_SET` is the last
//! number of the object identifier. `CKA_VALUE` is the encoding of the draft, 4: the ML-DSA key and
//! after it the traditional key. PKCS #8 and SubjectPublicKeyInfo contain the same bytes.

use der::asn1::{ObjectIdentifier, UintRef};
use jeton_secret::Secret;
use sec1::{EcParameters, EcPrivateKey};

use super::encoding::{decoded, encoded, integers, invalid, part};
use super::{Family, KeyTypeRow, Limited, ec, set};
use crate::backend::{
    Composite, Curve, MlDsa, PairSpec, PrivateParts, PublicParts, RsaCrt, RsaPrivate, Traditional,
};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::curve::{Group, named_group};
use crate::object::Attributes;
use crate::object::required::{put_same, value};
use crate::object::rule::ObjectTypes;
use crate::object::value::Value;

const PUBLIC: ObjectTypes = ObjectTypes::member(9);
const PRIVATE: ObjectTypes = ObjectTypes::member(17);

pub(super) const FAMILY: Family = Family {
    rows: &[KeyTypeRow {
        key_type: KeyType::JETON_COMPOSITE_ML_DSA,
        public: PUBLIC,
        private: PRIVATE,
        uses: &[A::SIGN, A::VERIFY],
        size: A::PARAMETER_SET,
        pair_spec: |public, _| Ok(PairSpec::Composite(named(public)?)),
        public_parts: |attributes| decode_public(named(attributes)?, value(attributes)?).map_err(malformed),
        private_parts: |attributes| decode_private(named(attributes)?, value(attributes)?).map_err(malformed),
        put_public: |attributes, parts| put_same(attributes, A::VALUE, &encode_public(parts)?),
        put_private: |attributes, _, parts| {
            let (algorithm, key) = encode_private(&parts)?;
            set::put_set(attributes, algorithm.number.into())?;
            attributes.put(A::VALUE, Value::Bytes(key));
            Ok(())
        },
        limited: |attributes| {
            let group = match named(attributes)?.traditional {
                Traditional::RsaPkcs1(bits) | Traditional::RsaPss(bits) => {
                    return Ok(Some(Limited::RsaBits(bits as u64)));
                }
                Traditional::Ecdsa(curve) => Group::Ec(curve),
                Traditional::Ed25519 => Group::Ed25519,
            };
            Ok(named_group(group).map(Limited::Curve))
        },
        identifiers: &IDENTIFIERS,
        place: |attributes| {
            let set = named(attributes)?;
            Composite::ALL.iter().position(|row| row == set).ok_or(Error::GeneralError)
        },
        encode_public: |_, parts| Ok((None, encode_public(parts)?[..].into())),
        encode_private: |attributes, _| Ok((None, part(attributes, A::VALUE)?.into())),
        decode_private: |info, place| {
            let number = Composite::ALL[place].number;
            let key = Value::Bytes(info.private_key.as_bytes().into());
            Ok(vec![(A::PARAMETER_SET, Value::Number(number.into())), (A::VALUE, key)])
        },
        ..KeyTypeRow::BASE
    }],
    rules: &set::rules(PUBLIC, PRIVATE),
};

/// The object identifiers of the algorithms, in their order.
const IDENTIFIERS: [ObjectIdentifier; Composite::ALL.len()] = {
    let parent = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.6");
    let (mut identifiers, mut at) = ([parent; Composite::ALL.len()], 0);
    while at < identifiers.len() {
        let Ok(identifier) = parent.push_arc(Composite::ALL[at].number) else { panic!() };
        (identifiers[at], at) = (identifier, at + 1);
    }
    identifiers
};

/// Returns the algorithm of a key.
fn named(attributes: &Attributes) -> Result<&'static Composite> {
    let number = attributes.number(A::PARAMETER_SET).ok_or(Error::TemplateIncomplete)?;
    Composite::numbered(number).ok_or(Error::AttributeValueInvalid)
}

fn encode_public(parts: &PublicParts) -> Result<Vec<u8>> {
    let PublicParts::Composite { ml_dsa, traditional, .. } = parts else {
        return Err(Error::KeyTypeInconsistent);
    };
    match &**traditional {
        PublicParts::Rsa { n, e } => Ok([&ml_dsa[..], &integers([&n[..], e])?].concat()),
        other => Ok([ml_dsa, other.encoded().ok_or(Error::KeyTypeInconsistent)?].concat()),
    }
}

fn decode_public(set: &'static Composite, key: &[u8]) -> Result<PublicParts> {
    let parts = key.split_at_checked(set.ml_dsa.public_len());
    let (ml_dsa, key) = parts.ok_or(Error::AttributeValueInvalid)?;
    let traditional = match set.traditional {
        Traditional::RsaPkcs1(_) | Traditional::RsaPss(_) => {
            let [n, e] = numbers(key)?;
            PublicParts::Rsa { n: n.as_bytes().to_vec(), e: e.as_bytes().to_vec() }
        }
        Traditional::Ecdsa(curve) => PublicParts::Ec { curve, point: key.to_vec() },
        Traditional::Ed25519 => PublicParts::Ed25519 { point: key.try_into().map_err(invalid)? },
    };
    Ok(PublicParts::Composite { set, ml_dsa: ml_dsa.to_vec(), traditional: Box::new(traditional) })
}

fn encode_private(parts: &PrivateParts) -> Result<(&'static Composite, Secret)> {
    let PrivateParts::Composite { set, seed, traditional } = parts else {
        return Err(Error::KeyTypeInconsistent);
    };
    let second = match &**traditional {
        PrivateParts::Rsa(RsaPrivate { n, e: Some(e), d, crt: Some(crt) }) => {
            integers([&[0][..], n, e, d, &crt.p, &crt.q, &crt.dp, &crt.dq, &crt.qinv])?
        }
        PrivateParts::Ec { curve, scalar } => encoded(&EcPrivateKey {
            private_key: scalar,
            parameters: Some(EcParameters::NamedCurve(oid(*curve)?)),
            public_key: None,
        })?,
        PrivateParts::Ed25519 { seed } => seed.duplicate(),
        _ => return Err(Error::GeneralError),
    };
    let mut key = Secret::zeroed(seed.len() + second.len());
    key[..seed.len()].copy_from_slice(seed);
    key[seed.len()..].copy_from_slice(&second);
    Ok((set, key))
}

fn decode_private(set: &'static Composite, key: &[u8]) -> Result<PrivateParts> {
    let (seed, key) = key.split_at_checked(MlDsa::SEED_LEN).ok_or(Error::AttributeValueInvalid)?;
    let traditional = match set.traditional {
        Traditional::RsaPkcs1(_) | Traditional::RsaPss(_) => rsa(key)?,
        Traditional::Ecdsa(curve) => {
            let key: EcPrivateKey<'_> = decoded(key)?;
            let named = key.parameters.and_then(EcParameters::named_curve);
            if named.is_some_and(|named| Ok(named) != oid(curve)) {
                return Err(Error::AttributeValueInvalid);
            }
            PrivateParts::Ec { curve, scalar: ec::padded(key.private_key, curve.len())? }
        }
        Traditional::Ed25519 => PrivateParts::Ed25519 { seed: key.into() },
    };
    Ok(PrivateParts::Composite { set, seed: seed.into(), traditional: Box::new(traditional) })
}

/// Decodes a key in the encoding of RFC 8017, A.1.2, with version 0.
fn rsa(key: &[u8]) -> Result<PrivateParts> {
    let [version, n, e, d, p, q, dp, dq, qinv] = numbers(key)?;
    if version.as_bytes() != [0] {
        return Err(Error::AttributeValueInvalid);
    }
    let [n, e] = [n, e].map(|number| number.as_bytes().to_vec());
    let [d, p, q, dp, dq, qinv] = [d, p, q, dp, dq, qinv].map(|number| number.as_bytes().into());
    let crt = Some(RsaCrt { p, q, dp, dq, qinv });
    Ok(PrivateParts::Rsa(RsaPrivate { n, e: Some(e), d, crt }))
}

/// Decodes a sequence of this number of integers.
fn numbers<const N: usize>(key: &[u8]) -> Result<[UintRef<'_>; N]> {
    decoded::<Vec<UintRef<'_>>>(key)?.try_into().map_err(invalid)
}

/// Returns the object identifier of the curve of a component.
fn oid(curve: Curve) -> Result<ObjectIdentifier> {
    match curve {
        Curve::P256 => Ok(ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7")),
        Curve::P384 => Ok(ObjectIdentifier::new_unwrap("1.3.132.0.34")),
        _ => Err(Error::GeneralError),
    }
}

/// Converts an error of DER to one of an attribute.
fn malformed(error: Error) -> Error {
    match error {
        Error::WrappedKeyInvalid => Error::AttributeValueInvalid,
        other => other,
    }
}
