//! The way between a key's attributes and the parts that a backend takes.

use der::asn1::OctetStringRef;
use der::{Decode, Encode};

use super::Attributes;
use super::attribute::Sorts;
use super::value::Value;
use crate::backend::{Curve, MlDsa, PairSpec, PrivateParts, Provider, PublicParts, RsaCrt, RsaPrivate};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::{NAMED_CURVES, NamedCurve, ml_dsa_number, ml_dsa_set};
use crate::secret::Secret;

/// The public exponent of an RSA pair whose template names none: 65537.
const DEFAULT_EXPONENT: &[u8] = &[1, 0, 1];

/// What pair the public template of `C_GenerateKeyPair` asks for.
pub fn pair_spec(public: &Attributes) -> Result<PairSpec<'_>> {
    Ok(match key_type(public)? {
        KeyType::RSA => PairSpec::Rsa {
            bits: public
                .number(A::MODULUS_BITS)
                .and_then(|bits| bits.try_into().ok())
                .ok_or(Error::TemplateIncomplete)?,
            public_exponent: public.bytes(A::PUBLIC_EXPONENT).unwrap_or(DEFAULT_EXPONENT),
        },
        KeyType::EC => PairSpec::Ec(named_curve(public)?.curve.ok_or(Error::CurveNotSupported)?),
        KeyType::EC_EDWARDS => match named_curve(public)?.curve {
            None => PairSpec::Ed25519,
            Some(_) => return Err(Error::CurveNotSupported),
        },
        KeyType::ML_DSA => PairSpec::MlDsa { set: parameter_set(public)?, seed: None },
        _ => return Err(Error::MechanismInvalid),
    })
}

/// The parts of a public key object; `AttributeValueInvalid` where an attribute is malformed.
pub fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    Ok(match key_type(attributes)? {
        KeyType::RSA => PublicParts::Rsa {
            n: bytes(attributes, A::MODULUS)?.to_vec(),
            e: bytes(attributes, A::PUBLIC_EXPONENT)?.to_vec(),
        },
        KeyType::EC => PublicParts::Ec {
            curve: named_curve(attributes)?.curve.ok_or(Error::CurveNotSupported)?,
            point: octets(bytes(attributes, A::EC_POINT)?)?.to_vec(),
        },
        KeyType::EC_EDWARDS => PublicParts::Ed25519 {
            point: octets(bytes(attributes, A::EC_POINT)?)?
                .try_into()
                .map_err(|_| Error::AttributeValueInvalid)?,
        },
        KeyType::ML_DSA => {
            PublicParts::MlDsa { set: parameter_set(attributes)?, key: bytes(attributes, A::VALUE)?.to_vec() }
        }
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// The parts of a private key object.
pub fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    Ok(match key_type(attributes)? {
        KeyType::RSA => PrivateParts::Rsa(RsaPrivate {
            n: bytes(attributes, A::MODULUS)?.to_vec(),
            e: attributes.bytes(A::PUBLIC_EXPONENT).map(<[u8]>::to_vec),
            d: bytes(attributes, A::PRIVATE_EXPONENT)?.into(),
            crt: crt(attributes),
        }),
        KeyType::EC => {
            let curve = named_curve(attributes)?.curve.ok_or(Error::CurveNotSupported)?;
            PrivateParts::Ec { curve, scalar: padded(bytes(attributes, A::VALUE)?, curve.len())? }
        }
        KeyType::EC_EDWARDS => {
            PrivateParts::Ed25519 { seed: edwards_seed(bytes(attributes, A::VALUE)?)?.into() }
        }
        KeyType::ML_DSA => PrivateParts::MlDsa {
            set: parameter_set(attributes)?,
            seed: attributes.bytes(A::SEED).map(Secret::from),
            key: bytes(attributes, A::VALUE)?.into(),
        },
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// Sees that a created key is one, and brings its attributes into the form that the token gives: the curve as its
/// object identifier, the point as a DER octet string, an ML-DSA key expanded from its seed.
pub fn check(attributes: &mut Attributes, sort: Sorts, provider: &Provider) -> Result<()> {
    if sort.has(Sorts::AES.or(Sorts::GENERIC_SECRET)) {
        return check_secret(attributes, sort);
    }
    if attributes.has(A::EC_PARAMS) {
        let oid = named_curve(attributes)?.oid;
        attributes.put(A::EC_PARAMS, Value::Bytes(oid.into()));
    }
    if sort.is_hidden() {
        expand_seed(attributes, sort, provider)?;
        provider.keys.private(&private_parts(attributes)?).map_err(refused)?;
        return Ok(());
    }
    let parts = public_parts(attributes)?;
    provider.keys.public(&parts).map_err(refused)?;
    put_public(attributes, &parts)
}

/// Puts the numbers of a public key.
pub fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    match parts {
        PublicParts::Rsa { n, e } => {
            let bits = n.len() as u64 * 8 - u64::from(n.first().map_or(0, |byte| byte.leading_zeros()));
            put_same(attributes, A::MODULUS, n)?;
            put_same(attributes, A::PUBLIC_EXPONENT, e)?;
            attributes.put(A::MODULUS_BITS, Value::Number(bits));
        }
        PublicParts::Ec { curve, point } => put_point(attributes, Some(*curve), point)?,
        PublicParts::Ed25519 { point } => put_point(attributes, None, point)?,
        PublicParts::MlDsa { key, .. } => put_same(attributes, A::VALUE, key)?,
    }
    Ok(())
}

/// Puts the numbers of a private key, and those of its public half that a private key object has.
pub fn put_private(attributes: &mut Attributes, public: &PublicParts, parts: PrivateParts) -> Result<()> {
    match parts {
        PrivateParts::Rsa(key) => {
            put_same(attributes, A::MODULUS, &key.n)?;
            if let PublicParts::Rsa { e, .. } = public {
                put_same(attributes, A::PUBLIC_EXPONENT, e)?;
            }
            attributes.put(A::PRIVATE_EXPONENT, Value::Bytes(key.d));
            if let Some(crt) = key.crt {
                put_crt(attributes, crt);
            }
        }
        PrivateParts::Ec { curve, scalar } => {
            put_same(attributes, A::EC_PARAMS, oid(Some(curve))?)?;
            attributes.put(A::VALUE, Value::Bytes(scalar));
        }
        PrivateParts::Ed25519 { seed } => {
            put_same(attributes, A::EC_PARAMS, oid(None)?)?;
            attributes.put(A::VALUE, Value::Bytes(seed));
        }
        PrivateParts::MlDsa { set, seed, key } => {
            put_set(attributes, set)?;
            attributes.put(A::VALUE, Value::Bytes(key));
            if let Some(seed) = seed {
                attributes.put(A::SEED, Value::Bytes(seed));
            }
        }
    }
    Ok(())
}

/// PKCS#11 3.2, "AES secret key objects": 16, 24 or 32 bytes; a generic secret has at least one.
fn check_secret(attributes: &mut Attributes, sort: Sorts) -> Result<()> {
    let len = bytes(attributes, A::VALUE)?.len();
    if len == 0 || sort == Sorts::AES && !matches!(len, 16 | 24 | 32) {
        return Err(Error::AttributeValueInvalid);
    }
    attributes.put(A::VALUE_LEN, Value::Number(len as u64));
    Ok(())
}

/// PKCS#11 3.2, "ML-DSA private key objects": a seed alone suffices; where both are given they must agree.
fn expand_seed(attributes: &mut Attributes, sort: Sorts, provider: &Provider) -> Result<()> {
    if sort != Sorts::ML_DSA_PRIVATE {
        return Ok(());
    }
    let Some(seed) = attributes.bytes(A::SEED) else {
        return if attributes.has(A::VALUE) { Ok(()) } else { Err(Error::TemplateIncomplete) };
    };
    if seed.len() != MlDsa::SEED_LEN {
        return Err(Error::AttributeValueInvalid);
    }
    let spec = PairSpec::MlDsa { set: parameter_set(attributes)?, seed: Some(&seed.into()) };
    let (_, PrivateParts::MlDsa { key, .. }) = provider.keys.generate(&spec)? else {
        return Err(Error::GeneralError);
    };
    match attributes.bytes(A::VALUE) {
        Some(given) if *given != key[..] => Err(Error::TemplateInconsistent),
        _ => {
            attributes.put(A::VALUE, Value::Bytes(key));
            Ok(())
        }
    }
}

/// A backend's word on a key that the caller gave.
fn refused(error: Error) -> Error {
    match error {
        Error::DataInvalid | Error::DataLenRange => Error::AttributeValueInvalid,
        other => other,
    }
}

/// Puts what a mechanism made; a template that named something else contradicts it.
fn put_same(attributes: &mut Attributes, id: A, made: &[u8]) -> Result<()> {
    if attributes.bytes(id).is_some_and(|given| given != made) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(id, Value::Bytes(made.into()));
    Ok(())
}

fn put_set(attributes: &mut Attributes, set: MlDsa) -> Result<()> {
    let made = ml_dsa_number(set);
    if attributes.number(A::PARAMETER_SET).is_some_and(|given| given != made) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::PARAMETER_SET, Value::Number(made));
    Ok(())
}

fn put_point(attributes: &mut Attributes, curve: Option<Curve>, point: &[u8]) -> Result<()> {
    if attributes.bytes(A::EC_POINT).is_some_and(|given| octets(given) != Ok(point)) {
        return Err(Error::TemplateInconsistent);
    }
    let der =
        OctetStringRef::new(point).and_then(|octets| octets.to_der()).map_err(|_| Error::GeneralError)?;
    attributes.put(A::EC_PARAMS, Value::Bytes(oid(curve)?.into()));
    attributes.put(A::EC_POINT, Value::Bytes(Secret::new(der)));
    Ok(())
}

fn put_crt(attributes: &mut Attributes, crt: RsaCrt) {
    attributes.put(A::PRIME_1, Value::Bytes(crt.p));
    attributes.put(A::PRIME_2, Value::Bytes(crt.q));
    attributes.put(A::EXPONENT_1, Value::Bytes(crt.dp));
    attributes.put(A::EXPONENT_2, Value::Bytes(crt.dq));
    attributes.put(A::COEFFICIENT, Value::Bytes(crt.qinv));
}

fn crt(attributes: &Attributes) -> Option<RsaCrt> {
    let part = |id| attributes.bytes(id).filter(|bytes| !bytes.is_empty()).map(Secret::from);
    Some(RsaCrt {
        p: part(A::PRIME_1)?,
        q: part(A::PRIME_2)?,
        dp: part(A::EXPONENT_1)?,
        dq: part(A::EXPONENT_2)?,
        qinv: part(A::COEFFICIENT)?,
    })
}

fn key_type(attributes: &Attributes) -> Result<KeyType> {
    attributes.number(A::KEY_TYPE).map(KeyType).ok_or(Error::TemplateIncomplete)
}

fn bytes(attributes: &Attributes, id: A) -> Result<&[u8]> {
    attributes.bytes(id).ok_or(Error::TemplateIncomplete)
}

/// A scalar at the length of its curve's order; longer only by leading zeros.
fn padded(scalar: &[u8], len: usize) -> Result<Secret> {
    let digits = super::value::unpadded(scalar);
    let mut out = Secret::zeroed(len);
    let start = len.checked_sub(digits.len()).ok_or(Error::AttributeValueInvalid)?;
    out[start..].copy_from_slice(digits);
    Ok(out)
}

/// RFC 8032 keys are 32 bytes; RFC 8410's inner octet string around them is taken too.
fn edwards_seed(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.len() {
        32 => Ok(bytes),
        _ => octets(bytes).ok().filter(|inner| inner.len() == 32).ok_or(Error::AttributeValueInvalid),
    }
}

/// The point in a `CKA_EC_POINT`: a DER octet string, or the bare point that some callers give (an uncompressed
/// point starts with 04 as well, so the DER form must fit to its last byte).
fn octets(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.is_empty() {
        return Err(Error::AttributeValueInvalid);
    }
    Ok(<&OctetStringRef>::from_der(bytes).map_or(bytes, |octets| octets.as_bytes()))
}

/// The curve that `CKA_EC_PARAMS` names by object identifier or printable string.
fn named_curve(attributes: &Attributes) -> Result<&'static NamedCurve> {
    let params = bytes(attributes, A::EC_PARAMS)?;
    let name = der::asn1::PrintableStringRef::from_der(params).ok();
    NAMED_CURVES
        .iter()
        .find(|curve| curve.oid == params || name.as_ref().is_some_and(|name| name.as_str() == curve.name))
        .ok_or(Error::CurveNotSupported)
}

fn oid(curve: Option<Curve>) -> Result<&'static [u8]> {
    NAMED_CURVES.iter().find(|named| named.curve == curve).map(|named| named.oid).ok_or(Error::GeneralError)
}

fn parameter_set(attributes: &Attributes) -> Result<MlDsa> {
    let number = attributes.number(A::PARAMETER_SET).ok_or(Error::TemplateIncomplete)?;
    ml_dsa_set(number).ok_or(Error::AttributeValueInvalid)
}
