//! The way between a key's attributes and the parts that a backend takes.

use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef, PrintableStringRef};
use der::{Decode, Encode};

use super::attribute::Sorts;
use super::value::{Value, unpadded};
use super::{Attributes, otp};
use crate::backend::{MlDsa, MlKem, PairSpec, PrivateParts, Provider, PublicParts, RsaCrt, RsaPrivate};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::curve::{Group, NAMED_CURVES, NamedCurve, named_group};
use crate::mechanism::{ml_dsa_number, ml_dsa_set, ml_kem_number, ml_kem_set, slh_dsa_number, slh_dsa_set};
use crate::secret::Secret;

/// The public exponent of an RSA pair whose template names none: 65537.
const DEFAULT_EXPONENT: &[u8] = &[1, 0, 1];

/// What pair the templates of `C_GenerateKeyPair` ask for.
pub fn pair_spec<'a>(public: &'a Attributes, private: &Attributes) -> Result<PairSpec<'a>> {
    Ok(match key_type(public)? {
        KeyType::RSA => PairSpec::Rsa {
            bits: public
                .number(A::MODULUS_BITS)
                .and_then(|bits| bits.try_into().ok())
                .ok_or(Error::TemplateIncomplete)?,
            public_exponent: public.bytes(A::PUBLIC_EXPONENT).unwrap_or(DEFAULT_EXPONENT),
        },
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => match named_curve(public)?.group {
            Group::Ec(curve) => PairSpec::Ec(curve),
            Group::Ed25519 => PairSpec::Ed25519,
            Group::Ed448 => PairSpec::Ed448,
            Group::X25519 => PairSpec::X25519,
            Group::X448 => PairSpec::X448,
        },
        KeyType::ML_DSA => PairSpec::MlDsa { set: parameter_set(public, ml_dsa_set)?, seed: None },
        KeyType::ML_KEM => PairSpec::MlKem { set: parameter_set(public, ml_kem_set)?, seed: None },
        KeyType::SLH_DSA => PairSpec::SlhDsa { set: parameter_set(public, slh_dsa_set)?, seed: None },
        KeyType::DH => PairSpec::Dh {
            prime: bytes(public, A::PRIME)?,
            base: bytes(public, A::BASE)?,
            private_bits: match private.number(A::VALUE_BITS) {
                Some(bits) => Some(usize::try_from(bits).map_err(|_| Error::KeySizeRange)?),
                None => None,
            },
        },
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
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => {
            let group = named_curve(attributes)?.group;
            let point = point(group, bytes(attributes, A::EC_POINT)?)?;
            match group {
                Group::Ec(curve) => PublicParts::Ec { curve, point: point.to_vec() },
                Group::Ed25519 => PublicParts::Ed25519 { point: exact(point)? },
                Group::Ed448 => PublicParts::Ed448 { point: exact(point)? },
                Group::X25519 => PublicParts::X25519 { point: exact(point)? },
                Group::X448 => PublicParts::X448 { point: exact(point)? },
            }
        }
        KeyType::ML_DSA => PublicParts::MlDsa {
            set: parameter_set(attributes, ml_dsa_set)?,
            key: value(attributes)?.to_vec(),
        },
        KeyType::ML_KEM => PublicParts::MlKem {
            set: parameter_set(attributes, ml_kem_set)?,
            key: value(attributes)?.to_vec(),
        },
        KeyType::SLH_DSA => PublicParts::SlhDsa {
            set: parameter_set(attributes, slh_dsa_set)?,
            key: value(attributes)?.to_vec(),
        },
        KeyType::DH => PublicParts::Dh {
            prime: bytes(attributes, A::PRIME)?.to_vec(),
            base: bytes(attributes, A::BASE)?.to_vec(),
            value: unpadded(value(attributes)?).to_vec(),
        },
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
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => {
            let scalar = value(attributes)?;
            match named_curve(attributes)?.group {
                Group::Ec(curve) => PrivateParts::Ec { curve, scalar: padded(scalar, curve.len())? },
                Group::Ed25519 => PrivateParts::Ed25519 { seed: fixed(scalar, 32)? },
                Group::Ed448 => PrivateParts::Ed448 { seed: fixed(scalar, 57)? },
                Group::X25519 => PrivateParts::X25519 { scalar: fixed(scalar, 32)? },
                Group::X448 => PrivateParts::X448 { scalar: fixed(scalar, 56)? },
            }
        }
        KeyType::ML_DSA => PrivateParts::MlDsa {
            set: parameter_set(attributes, ml_dsa_set)?,
            seed: attributes.bytes(A::SEED).map(Secret::from),
            key: value(attributes)?.into(),
        },
        KeyType::ML_KEM => PrivateParts::MlKem {
            set: parameter_set(attributes, ml_kem_set)?,
            seed: attributes.bytes(A::SEED).map(Secret::from),
            key: value(attributes)?.into(),
        },
        KeyType::SLH_DSA => PrivateParts::SlhDsa {
            set: parameter_set(attributes, slh_dsa_set)?,
            key: value(attributes)?.into(),
        },
        KeyType::DH => PrivateParts::Dh {
            prime: bytes(attributes, A::PRIME)?.to_vec(),
            base: bytes(attributes, A::BASE)?.to_vec(),
            value: unpadded(value(attributes)?).into(),
        },
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// The parts of the public key that a key object is, or is the private half of.
pub fn public_half(attributes: &Attributes, sort: Sorts, provider: &Provider) -> Result<PublicParts> {
    if sort.is_public() || sort == Sorts::RSA_PRIVATE {
        return public_parts(attributes);
    }
    provider.keys.private(&private_parts(attributes)?)?.public()
}

/// Sees that a created key is one, and brings its attributes into the form that the token gives: the curve as its
/// object identifier, the point as a DER octet string, an ML-DSA key expanded from its seed.
pub fn check(attributes: &mut Attributes, sort: Sorts, provider: &Provider) -> Result<()> {
    if sort.is_secret() {
        return check_secret(attributes, sort);
    }
    if attributes.has(A::EC_PARAMS) {
        let oid = named_curve(attributes)?.oid;
        attributes.put(A::EC_PARAMS, Value::Bytes(oid.into()));
    }
    if sort.is_hidden() {
        expand_seed(attributes, sort, provider)?;
        let parts = private_parts(attributes)?;
        provider.keys.private(&parts).map_err(refused)?;
        if let PrivateParts::Dh { value, .. } = parts {
            put_dh_value(attributes, value);
        }
        return Ok(());
    }
    let parts = public_parts(attributes)?;
    provider.keys.public(&parts).map_err(refused)?;
    put_public(attributes, &parts)
}

/// Whether it is a key of edwards448; Ed25519's otherwise.
pub fn is_edwards448(attributes: &Attributes) -> bool {
    named_curve(attributes).is_ok_and(|curve| curve.group == Group::Ed448)
}

/// The value of a secret key.
pub fn secret(attributes: &Attributes) -> Result<&[u8]> {
    value(attributes)
}

/// The length of an RSA modulus in bytes.
pub fn modulus_len(attributes: &Attributes) -> Result<usize> {
    bytes(attributes, A::MODULUS).map(<[u8]>::len)
}

/// Puts the numbers of a public key.
pub fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    match parts {
        PublicParts::Rsa { n, e } => {
            put_same(attributes, A::MODULUS, n)?;
            put_same(attributes, A::PUBLIC_EXPONENT, e)?;
            attributes.put(A::MODULUS_BITS, Value::Number(bit_size(n)));
        }
        PublicParts::Ec { curve, point } => put_point(attributes, Group::Ec(*curve), point)?,
        PublicParts::Ed25519 { point } => put_point(attributes, Group::Ed25519, point)?,
        PublicParts::Ed448 { point } => put_point(attributes, Group::Ed448, point)?,
        PublicParts::X25519 { point } => put_point(attributes, Group::X25519, point)?,
        PublicParts::X448 { point } => put_point(attributes, Group::X448, point)?,
        PublicParts::MlDsa { key, .. } | PublicParts::MlKem { key, .. } | PublicParts::SlhDsa { key, .. } => {
            put_same(attributes, A::VALUE, key)?
        }
        PublicParts::Dh { prime, base, value: made } => {
            put_same(attributes, A::PRIME, prime)?;
            put_same(attributes, A::BASE, base)?;
            if attributes.bytes(A::VALUE).is_some_and(|given| unpadded(given) != made) {
                return Err(Error::TemplateInconsistent);
            }
            attributes.put(A::VALUE, Value::Bytes(made[..].into()));
        }
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
        PrivateParts::Ec { curve, scalar } => put_scalar(attributes, Group::Ec(curve), scalar)?,
        PrivateParts::Ed25519 { seed } => put_scalar(attributes, Group::Ed25519, seed)?,
        PrivateParts::Ed448 { seed } => put_scalar(attributes, Group::Ed448, seed)?,
        PrivateParts::X25519 { scalar } => put_scalar(attributes, Group::X25519, scalar)?,
        PrivateParts::X448 { scalar } => put_scalar(attributes, Group::X448, scalar)?,
        PrivateParts::MlDsa { set, seed, key } => put_seeded(attributes, ml_dsa_number(set), seed, key)?,
        PrivateParts::MlKem { set, seed, key } => put_seeded(attributes, ml_kem_number(set), seed, key)?,
        PrivateParts::SlhDsa { set, key } => put_seeded(attributes, slh_dsa_number(set), None, key)?,
        PrivateParts::Dh { prime, base, value } => {
            put_same(attributes, A::PRIME, &prime)?;
            put_same(attributes, A::BASE, &base)?;
            put_dh_value(attributes, value);
        }
    }
    Ok(())
}

/// Puts a private value without leading zeros, and its size.
fn put_dh_value(attributes: &mut Attributes, value: Secret) {
    attributes.put(A::VALUE_BITS, Value::Number(bit_size(&value)));
    attributes.put(A::VALUE, Value::Bytes(value));
}

/// The size of an integer without leading zeros in bits.
pub(super) fn bit_size(number: &[u8]) -> u64 {
    number.len() as u64 * 8 - u64::from(number.first().map_or(0, |byte| byte.leading_zeros()))
}

fn put_scalar(attributes: &mut Attributes, group: Group, scalar: Secret) -> Result<()> {
    put_same(attributes, A::EC_PARAMS, oid(group)?)?;
    attributes.put(A::VALUE, Value::Bytes(scalar));
    Ok(())
}

fn put_seeded(attributes: &mut Attributes, set: u64, seed: Option<Secret>, key: Secret) -> Result<()> {
    if attributes.number(A::PARAMETER_SET).is_some_and(|given| given != set) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::PARAMETER_SET, Value::Number(set));
    attributes.put(A::VALUE, Value::Bytes(key));
    if let Some(seed) = seed {
        attributes.put(A::SEED, Value::Bytes(seed));
    }
    Ok(())
}

/// Whether a secret key of that sort may have so many bytes.
pub fn secret_len_fits(sort: Sorts, len: usize) -> bool {
    match sort {
        Sorts::AES => matches!(len, 16 | 24 | 32),
        Sorts::AES_XTS => matches!(len, 32 | 64),
        Sorts::CHACHA20 => len == 32,
        _ => len > 0,
    }
}

fn check_secret(attributes: &mut Attributes, sort: Sorts) -> Result<()> {
    let len = bytes(attributes, A::VALUE)?.len();
    otp::check(attributes, key_type(attributes)?)?;
    if !secret_len_fits(sort, len) {
        return Err(Error::AttributeValueInvalid);
    }
    attributes.put(A::VALUE_LEN, Value::Number(len as u64));
    Ok(())
}

/// PKCS#11 3.2, "ML-DSA private key objects", "ML-KEM private key objects": a seed alone suffices; where both are
/// given they must agree.
fn expand_seed(attributes: &mut Attributes, sort: Sorts, provider: &Provider) -> Result<()> {
    if !sort.has(Sorts::ML_DSA_PRIVATE.or(Sorts::ML_KEM_PRIVATE)) {
        return Ok(());
    }
    let Some(seed) = attributes.bytes(A::SEED) else {
        return if attributes.has(A::VALUE) { Ok(()) } else { Err(Error::TemplateIncomplete) };
    };
    let (len, seed) = (seed.len(), Secret::from(seed));
    let (wanted, spec) = if sort == Sorts::ML_DSA_PRIVATE {
        (MlDsa::SEED_LEN, PairSpec::MlDsa { set: parameter_set(attributes, ml_dsa_set)?, seed: Some(&seed) })
    } else {
        (MlKem::SEED_LEN, PairSpec::MlKem { set: parameter_set(attributes, ml_kem_set)?, seed: Some(&seed) })
    };
    if len != wanted {
        return Err(Error::AttributeValueInvalid);
    }
    let (PrivateParts::MlDsa { key, .. } | PrivateParts::MlKem { key, .. }) =
        provider.keys.generate(&spec)?.1
    else {
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

fn put_point(attributes: &mut Attributes, group: Group, point: &[u8]) -> Result<()> {
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

/// DER of every point. PKCS#11 3.2, "Elliptic Curve", has those of Edwards and Montgomery curves as bare bytes; 3.0 had
/// them in DER, and OpenSC's clients take nothing else.
fn written_point(point: &[u8]) -> Result<Secret> {
    let der = OctetStringRef::new(point).and_then(|octets| octets.to_der());
    der.map(Secret::new).map_err(|_| Error::GeneralError)
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
    let digits = unpadded(scalar);
    let mut out = Secret::zeroed(len);
    let start = len.checked_sub(digits.len()).ok_or(Error::AttributeValueInvalid)?;
    out[start..].copy_from_slice(digits);
    Ok(out)
}

/// A key of that length; RFC 8410's inner octet string around it is taken too.
fn fixed(bytes: &[u8], len: usize) -> Result<Secret> {
    let inner = if bytes.len() == len { bytes } else { octets(bytes)? };
    if inner.len() == len { Ok(inner.into()) } else { Err(Error::AttributeValueInvalid) }
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::AttributeValueInvalid)
}

/// The point in a `CKA_EC_POINT`: a DER octet string or, of some callers, a bit string or the bare point. The length
/// tells: an uncompressed point starts with 04 as DER does, and one in 256 goes on with the length that DER would have.
fn point(group: Group, bytes: &[u8]) -> Result<&[u8]> {
    if group.has_point_len(bytes.len()) {
        return Ok(bytes);
    }
    match BitStringRef::from_der(bytes).ok().and_then(|bits| bits.as_bytes()) {
        Some(point) => Ok(point),
        None => octets(bytes),
    }
}

/// The length of an uncompressed point or a u-coordinate of a key's curve.
pub fn point_len(attributes: &Attributes) -> Result<usize> {
    Ok(match named_curve(attributes)?.group {
        Group::Ec(curve) => 1 + 2 * curve.len(),
        Group::Ed25519 | Group::X25519 => 32,
        Group::Ed448 => 57,
        Group::X448 => 56,
    })
}

/// The point or u-coordinate of a public key that agrees.
pub fn point_of(parts: &PublicParts) -> Result<&[u8]> {
    match parts {
        PublicParts::Ec { point, .. } => Ok(point),
        PublicParts::X25519 { point } => Ok(point),
        PublicParts::X448 { point } => Ok(point),
        _ => Err(Error::KeyTypeInconsistent),
    }
}

/// What a DER octet string holds; bytes that are none stand for themselves.
pub fn octets(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.is_empty() {
        return Err(Error::AttributeValueInvalid);
    }
    Ok(<&OctetStringRef>::from_der(bytes).map_or(bytes, |octets| octets.as_bytes()))
}

/// The curve that `CKA_EC_PARAMS` names by object identifier or printable string, one of the key's type. PKCS#11 3.2,
/// "Elliptic Curve": `CurveNotSupported` for another curve, `DomainParamsInvalid` for parameters in another form.
pub fn named_curve(attributes: &Attributes) -> Result<&'static NamedCurve> {
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

fn oid(group: Group) -> Result<&'static [u8]> {
    named_group(group).map(|named| named.oid).ok_or(Error::GeneralError)
}

fn value(attributes: &Attributes) -> Result<&[u8]> {
    bytes(attributes, A::VALUE)
}

fn parameter_set<S>(attributes: &Attributes, set: impl Fn(u64) -> Option<S>) -> Result<S> {
    let number = attributes.number(A::PARAMETER_SET).ok_or(Error::TemplateIncomplete)?;
    set(number).ok_or(Error::AttributeValueInvalid)
}
