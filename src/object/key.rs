//! Converts between a key's attributes and the parts of a key that a backend takes.

use super::Attributes;
use super::attribute::ObjectTypes;
use super::key_type::{ec as curve, otp};
use super::required::{bytes, key_type, put_same};
use super::value::{Value, unpadded};
use crate::backend::{
    DsaGroup, MlDsa, MlKem, PairSpec, PrivateKey, PrivateParts, Provider, PublicParts, RsaCrt, RsaPrivate,
    des3,
};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::mechanism::curve::Group;
use crate::mechanism::{ml_dsa_number, ml_dsa_set, ml_kem_number, ml_kem_set, slh_dsa_number, slh_dsa_set};
use crate::secret::{Secret, with_wiped_frame};

/// The public exponent of an RSA pair if the template has none: 65537.
const DEFAULT_EXPONENT: &[u8] = &[1, 0, 1];

/// Returns the usage attributes that keys of this class can have.
pub(crate) fn usages(class: ObjectClass) -> &'static [A] {
    match class {
        ObjectClass::PUBLIC_KEY => {
            &[A::ENCRYPT, A::VERIFY, A::VERIFY_RECOVER, A::WRAP, A::ENCAPSULATE, A::DERIVE]
        }
        ObjectClass::PRIVATE_KEY => {
            &[A::DECRYPT, A::SIGN, A::SIGN_RECOVER, A::UNWRAP, A::DECAPSULATE, A::DERIVE]
        }
        ObjectClass::SECRET_KEY | ObjectClass::OTP_KEY => &[
            A::ENCRYPT,
            A::DECRYPT,
            A::SIGN,
            A::VERIFY,
            A::WRAP,
            A::UNWRAP,
            A::DERIVE,
            A::ENCAPSULATE,
            A::DECAPSULATE,
        ],
        _ => &[],
    }
}

/// Reads from the templates of `C_GenerateKeyPair` what pair to generate.
pub(crate) fn pair_spec<'a>(public: &'a Attributes, private: &Attributes) -> Result<PairSpec<'a>> {
    Ok(match key_type(public)? {
        KeyType::RSA => PairSpec::Rsa {
            bits: public
                .number(A::MODULUS_BITS)
                .and_then(|bits| bits.try_into().ok())
                .ok_or(Error::TemplateIncomplete)?,
            public_exponent: public.bytes(A::PUBLIC_EXPONENT).unwrap_or(DEFAULT_EXPONENT),
        },
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => match curve::named_curve(public)?.group
        {
            Group::Ec(curve) => PairSpec::Ec(curve),
            Group::Ed25519 => PairSpec::Ed25519,
            Group::Ed448 => PairSpec::Ed448,
            Group::X25519 => PairSpec::X25519,
            Group::X448 => PairSpec::X448,
        },
        KeyType::ML_DSA => PairSpec::MlDsa { set: parameter_set(public, ml_dsa_set)?, seed: None },
        KeyType::ML_KEM => PairSpec::MlKem { set: parameter_set(public, ml_kem_set)?, seed: None },
        KeyType::SLH_DSA => PairSpec::SlhDsa { set: parameter_set(public, slh_dsa_set)?, seed: None },
        KeyType::DSA => PairSpec::Dsa(dsa_group(public)?),
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

/// Returns the domain parameters of a DSA key or of a domain parameters object.
pub(super) fn dsa_group(attributes: &Attributes) -> Result<DsaGroup> {
    let part = |id| bytes(attributes, id).map(<[u8]>::to_vec);
    Ok(DsaGroup { prime: part(A::PRIME)?, subprime: part(A::SUBPRIME)?, base: part(A::BASE)? })
}

/// Returns the parts of a public key object. Fails with `AttributeValueInvalid` if an attribute is
/// malformed.
pub(crate) fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    Ok(match key_type(attributes)? {
        KeyType::RSA => PublicParts::Rsa {
            n: bytes(attributes, A::MODULUS)?.to_vec(),
            e: bytes(attributes, A::PUBLIC_EXPONENT)?.to_vec(),
        },
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => curve::public_parts(attributes)?,
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
        KeyType::DSA => {
            PublicParts::Dsa { group: dsa_group(attributes)?, value: unpadded(value(attributes)?).to_vec() }
        }
        KeyType::DH => PublicParts::Dh {
            prime: bytes(attributes, A::PRIME)?.to_vec(),
            base: bytes(attributes, A::BASE)?.to_vec(),
            value: unpadded(value(attributes)?).to_vec(),
        },
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// Returns the parts of a private key object.
pub(crate) fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    Ok(match key_type(attributes)? {
        KeyType::RSA => PrivateParts::Rsa(RsaPrivate {
            n: bytes(attributes, A::MODULUS)?.to_vec(),
            e: attributes.bytes(A::PUBLIC_EXPONENT).map(<[u8]>::to_vec),
            d: bytes(attributes, A::PRIVATE_EXPONENT)?.into(),
            crt: crt(attributes),
        }),
        KeyType::EC | KeyType::EC_EDWARDS | KeyType::EC_MONTGOMERY => curve::private_parts(attributes)?,
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
        KeyType::DSA => {
            PrivateParts::Dsa { group: dsa_group(attributes)?, value: unpadded(value(attributes)?).into() }
        }
        KeyType::DH => PrivateParts::Dh {
            prime: bytes(attributes, A::PRIME)?.to_vec(),
            base: bytes(attributes, A::BASE)?.to_vec(),
            value: unpadded(value(attributes)?).into(),
        },
        _ => return Err(Error::KeyTypeInconsistent),
    })
}

/// Returns the parts of the public key of a public or private key object.
pub(crate) fn public_half(
    attributes: &Attributes,
    object_type: ObjectTypes,
    provider: &Provider,
) -> Result<PublicParts> {
    if object_type.is_public() || object_type == ObjectTypes::RSA_PRIVATE {
        return public_parts(attributes);
    }
    provider.keys.private(&private_parts(attributes)?)?.public()
}

/// Checks that the backend accepts a created key, and normalises its attributes. A curve becomes
/// its object identifier. A point becomes a DER octet string. An ML-DSA or ML-KEM key is expanded
/// from its seed.
pub(crate) fn check(
    attributes: &mut Attributes,
    object_type: ObjectTypes,
    provider: &Provider,
) -> Result<()> {
    if object_type.is_secret() {
        return check_secret(attributes, object_type);
    }
    if attributes.has(A::EC_PARAMS) {
        let oid = curve::named_curve(attributes)?.oid;
        attributes.put(A::EC_PARAMS, Value::Bytes(oid.into()));
    }
    if key_type(attributes)? == KeyType::DSA {
        provider.keys.check_dsa_group(&dsa_group(attributes)?)?;
    }
    if object_type.is_hidden() {
        with_wiped_frame(|| expand_seed(attributes, object_type, provider))?;
        let parts = private_parts(attributes)?;
        let key = provider.keys.private(&parts).map_err(refused)?;
        if let PrivateParts::MlKem { .. } = parts {
            with_wiped_frame(|| check_decapsulation(&*key, provider)).map_err(refused)?;
        }
        if let PrivateParts::Dh { value, .. } = parts {
            put_dh_value(attributes, value)?;
        } else if let PrivateParts::Dsa { value, .. } = parts {
            attributes.put(A::VALUE, Value::Bytes(value));
        }
        return Ok(());
    }
    let parts = public_parts(attributes)?;
    provider.keys.public(&parts).map_err(refused)?;
    put_public(attributes, &parts)
}

/// Checks an ML-KEM key by one encapsulation. FIPS 203, 7.3, compares the parts of the public key
/// and not the secret vector. The backends prove all other key types when they parse them.
fn check_decapsulation(key: &dyn PrivateKey, provider: &Provider) -> Result<()> {
    let (ciphertext, secret) = provider.keys.public(&key.public()?)?.encapsulate()?;
    if key.decapsulate(&ciphertext)?[..] == secret[..] { Ok(()) } else { Err(Error::DataInvalid) }
}

/// Returns `CKA_VALUE` of a secret key.
pub(crate) fn secret(attributes: &Attributes) -> Result<&[u8]> {
    value(attributes)
}

/// Returns the length of an RSA modulus in bytes.
pub(crate) fn modulus_len(attributes: &Attributes) -> Result<usize> {
    bytes(attributes, A::MODULUS).map(<[u8]>::len)
}

/// Sets the attributes that hold a public key. Fails with `TemplateInconsistent` if the template
/// has other values for them.
pub(crate) fn put_public(attributes: &mut Attributes, parts: &PublicParts) -> Result<()> {
    match parts {
        PublicParts::Rsa { n, e } => {
            put_same(attributes, A::MODULUS, n)?;
            put_same(attributes, A::PUBLIC_EXPONENT, e)?;
            attributes.put(A::MODULUS_BITS, Value::Number(bit_size(n)));
        }
        PublicParts::Ec { curve, point } => curve::put_point(attributes, Group::Ec(*curve), point)?,
        PublicParts::Ed25519 { point } => curve::put_point(attributes, Group::Ed25519, point)?,
        PublicParts::Ed448 { point } => curve::put_point(attributes, Group::Ed448, point)?,
        PublicParts::X25519 { point } => curve::put_point(attributes, Group::X25519, point)?,
        PublicParts::X448 { point } => curve::put_point(attributes, Group::X448, point)?,
        PublicParts::MlDsa { key, .. } | PublicParts::MlKem { key, .. } | PublicParts::SlhDsa { key, .. } => {
            put_same(attributes, A::VALUE, key)?
        }
        PublicParts::Dsa { group, value: made } => {
            put_dsa_group(attributes, group)?;
            put_public_value(attributes, made)?;
        }
        PublicParts::Dh { prime, base, value: made } => {
            put_same(attributes, A::PRIME, prime)?;
            put_same(attributes, A::BASE, base)?;
            put_public_value(attributes, made)?;
        }
    }
    Ok(())
}

/// Sets the attributes that hold a private key, and those of the public key that a private key
/// object also has.
pub(crate) fn put_private(
    attributes: &mut Attributes,
    public: &PublicParts,
    parts: PrivateParts,
) -> Result<()> {
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
        PrivateParts::Ec { curve, scalar } => curve::put_scalar(attributes, Group::Ec(curve), scalar)?,
        PrivateParts::Ed25519 { seed } => curve::put_scalar(attributes, Group::Ed25519, seed)?,
        PrivateParts::Ed448 { seed } => curve::put_scalar(attributes, Group::Ed448, seed)?,
        PrivateParts::X25519 { scalar } => curve::put_scalar(attributes, Group::X25519, scalar)?,
        PrivateParts::X448 { scalar } => curve::put_scalar(attributes, Group::X448, scalar)?,
        PrivateParts::MlDsa { set, seed, key } => put_seeded(attributes, ml_dsa_number(set), seed, key)?,
        PrivateParts::MlKem { set, seed, key } => put_seeded(attributes, ml_kem_number(set), seed, key)?,
        PrivateParts::SlhDsa { set, key } => put_seeded(attributes, slh_dsa_number(set), None, key)?,
        PrivateParts::Dsa { group, value } => {
            put_dsa_group(attributes, &group)?;
            attributes.put(A::VALUE, Value::Bytes(value));
        }
        PrivateParts::Dh { prime, base, value } => {
            put_same(attributes, A::PRIME, &prime)?;
            put_same(attributes, A::BASE, &base)?;
            put_dh_value(attributes, value)?;
        }
    }
    Ok(())
}

fn put_dsa_group(attributes: &mut Attributes, group: &DsaGroup) -> Result<()> {
    put_same(attributes, A::PRIME, &group.prime)?;
    put_same(attributes, A::SUBPRIME, &group.subprime)?;
    put_same(attributes, A::BASE, &group.base)
}

/// Sets a public value without leading zeros. Fails with `TemplateInconsistent` if the template has
/// another number.
fn put_public_value(attributes: &mut Attributes, made: &[u8]) -> Result<()> {
    if attributes.bytes(A::VALUE).is_some_and(|given| unpadded(given) != made) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::VALUE, Value::Bytes(made.into()));
    Ok(())
}

/// Sets a private value without leading zeros, and its size in bits. Fails with
/// `TemplateInconsistent` if the template has another size.
fn put_dh_value(attributes: &mut Attributes, value: Secret) -> Result<()> {
    let bits = bit_size(&value);
    if attributes.number(A::VALUE_BITS).is_some_and(|given| given != bits) {
        return Err(Error::TemplateInconsistent);
    }
    attributes.put(A::VALUE_BITS, Value::Number(bits));
    attributes.put(A::VALUE, Value::Bytes(value));
    Ok(())
}

/// Returns the size in bits of an integer that has no leading zero bytes.
pub(crate) fn bit_size(number: &[u8]) -> u64 {
    number.len() as u64 * 8 - u64::from(number.first().map_or(0, |byte| byte.leading_zeros()))
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

/// Returns whether a secret key of this type may have this number of bytes.
pub(crate) fn secret_len_fits(object_type: ObjectTypes, len: usize) -> bool {
    match object_type {
        ObjectTypes::AES => matches!(len, 16 | 24 | 32),
        ObjectTypes::AES_XTS => matches!(len, 32 | 64),
        ObjectTypes::CHACHA20 => len == 32,
        ObjectTypes::DES3 => len == des3::KEY,
        _ => len > 0,
    }
}

fn check_secret(attributes: &mut Attributes, object_type: ObjectTypes) -> Result<()> {
    let len = bytes(attributes, A::VALUE)?.len();
    otp::check(attributes, key_type(attributes)?)?;
    // PKCS#11 3.2, "DES3 secret key objects": the parity bits must be correct.
    if !secret_len_fits(object_type, len)
        || (object_type == ObjectTypes::DES3 && !des3::has_parity(bytes(attributes, A::VALUE)?))
    {
        return Err(Error::AttributeValueInvalid);
    }
    attributes.put(A::VALUE_LEN, Value::Number(len as u64));
    Ok(())
}

/// Computes an ML-DSA or ML-KEM key from its seed. PKCS#11 3.2, "ML-DSA private key objects",
/// "ML-KEM private key objects": a seed alone is enough. If the template has seed and value, they
/// must agree.
fn expand_seed(attributes: &mut Attributes, object_type: ObjectTypes, provider: &Provider) -> Result<()> {
    if !object_type.has(ObjectTypes::ML_DSA_PRIVATE.or(ObjectTypes::ML_KEM_PRIVATE)) {
        return Ok(());
    }
    let Some(seed) = attributes.bytes(A::SEED) else {
        return if attributes.has(A::VALUE) { Ok(()) } else { Err(Error::TemplateIncomplete) };
    };
    let (len, seed) = (seed.len(), Secret::from(seed));
    let (wanted, spec) = if object_type == ObjectTypes::ML_DSA_PRIVATE {
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

/// Converts a backend's error about a key or a parameter that the caller supplied.
pub(crate) fn refused(error: Error) -> Error {
    match error {
        Error::DataInvalid | Error::DataLenRange => Error::AttributeValueInvalid,
        other => other,
    }
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

/// Returns `CKA_VALUE`. Fails with `TemplateIncomplete` if it is absent.
pub(super) fn value(attributes: &Attributes) -> Result<&[u8]> {
    bytes(attributes, A::VALUE)
}

fn parameter_set<S>(attributes: &Attributes, set: impl Fn(u64) -> Option<S>) -> Result<S> {
    let number = attributes.number(A::PARAMETER_SET).ok_or(Error::TemplateIncomplete)?;
    set(number).ok_or(Error::AttributeValueInvalid)
}
