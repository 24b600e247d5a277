//! Converts between a key's attributes and the parts of a key that a backend takes.

use jeton_secret::with_wiped_frame;
use tracing::warn;

use super::Attributes;
use super::attribute::ObjectTypes;
use super::key_type::KeyTypeRow;
use super::required::{self, CREATING, SIZES, bytes, refused_in, value};
use super::validation::{self, Flaw};
use super::value::Value;
use crate::backend::{PairSpec, PrivateKey, PrivateParts, Provider, PublicParts, RsaPrivate};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};

/// Returns the usage attributes that keys of this class can have.
pub(crate) fn usages(class: ObjectClass) -> &'static [A] {
    match class {
        ObjectClass::PUBLIC_KEY => {
            &[A::ENCRYPT, A::VERIFY, A::VERIFY_RECOVER, A::WRAP, A::ENCAPSULATE, A::DERIVE]
        }
        ObjectClass::PRIVATE_KEY => {
            &[A::DECRYPT, A::SIGN, A::SIGN_RECOVER, A::UNWRAP, A::DECAPSULATE, A::DERIVE]
        }
        ObjectClass::SECRET_KEY | ObjectClass::OTP_KEY => {
            &[A::ENCRYPT, A::DECRYPT, A::SIGN, A::VERIFY, A::WRAP, A::UNWRAP, A::DERIVE]
        }
        _ => &[],
    }
}

/// Reads from the templates of `C_GenerateKeyPair` what pair to generate.
pub(crate) fn pair_spec<'a>(public: &'a Attributes, private: &Attributes) -> Result<PairSpec<'a>> {
    let row = KeyTypeRow::of_object(public)?;
    (row.pair_spec)(public, private).map_err(|error| refused_in(public, row.size, SIZES, error))
}

/// Returns the parts of a public key object. Fails with `AttributeValueInvalid` if an attribute is
/// malformed.
pub(crate) fn public_parts(attributes: &Attributes) -> Result<PublicParts> {
    (KeyTypeRow::of_object(attributes)?.public_parts)(attributes)
}

pub(crate) fn private_parts(attributes: &Attributes) -> Result<PrivateParts> {
    (KeyTypeRow::of_object(attributes)?.private_parts)(attributes)
}

pub(crate) fn public_half(
    attributes: &Attributes,
    object_type: ObjectTypes,
    provider: &Provider,
) -> Result<PublicParts> {
    if object_type.is_public() || KeyTypeRow::of_object(attributes)?.has_public_half {
        return public_parts(attributes);
    }
    provider.keys.private(&private_parts(attributes)?)?.public()
}

/// The attribute that the log names if a key cannot be used: the first that the key has.
const MAIN: [A; 3] = [A::MODULUS, A::EC_POINT, A::VALUE];

/// Checks that the backend accepts a created key, and normalises its attributes. A curve becomes
/// its object identifier. A point becomes a DER octet string. An ML-DSA or ML-KEM key is expanded
/// from its seed.
pub(crate) fn check(
    attributes: &mut Attributes,
    object_type: ObjectTypes,
    provider: &Provider,
) -> Result<()> {
    let row = KeyTypeRow::of_object(attributes)?;
    if object_type.is_secret() {
        let len = value(attributes)?.len();
        (row.check_secret)(attributes)?;
        if !(row.len_fits)(len) {
            return Err(refused_in(attributes, A::VALUE, SIZES, Error::AttributeValueInvalid));
        }
        attributes.put(A::VALUE_LEN, Value::Number(len as u64));
        return Ok(());
    }
    let has_curve = attributes.has(A::EC_PARAMS);
    let main = MAIN.into_iter().find(|id| attributes.has(*id)).unwrap_or(A::VALUE);
    let len = attributes.bytes(main).map(<[u8]>::len);
    let refused = |error| match error {
        // The build has no library with this curve or this type of key.
        Error::MechanismInvalid if has_curve => Error::CurveNotSupported,
        Error::MechanismInvalid => Error::AttributeValueInvalid,
        other => required::refused(main, len, CREATING, refused(other)),
    };
    if object_type.is_hidden() {
        (row.prepare)(attributes, provider)?;
        let parts = (row.private_parts)(attributes)?;
        let key = provider.keys.private(&parts).map_err(refused)?;
        if let PrivateParts::MlKem { .. } = parts {
            with_wiped_frame(|| check_decapsulation(&*key, provider)).map_err(refused)?;
        }
        // PKCS#11 3.2, "RSA private key objects": "tokens MUST also store CKA_PUBLIC_EXPONENT". The
        // backend finds it if the template lacks it.
        if let (PrivateParts::Rsa(RsaPrivate { e: None, .. }), PublicParts::Rsa { e, .. }) =
            (&parts, key.public().map_err(refused)?)
        {
            attributes.put(A::PUBLIC_EXPONENT, Value::Bytes(e[..].into()));
        }
        return (row.normalise)(attributes, parts);
    }
    let parts = check_public(attributes, provider).map_err(|flaw| match flaw {
        Flaw::Malformed(error) => refused(error),
        flaw => {
            warn!(%flaw, "a public key is refused");
            Error::AttributeValueInvalid
        }
    })?;
    (row.put_public)(attributes, &parts)
}

/// Checks a public key that a caller supplies, and writes its curve and its point in the form of
/// the token.
pub(crate) fn check_public(
    attributes: &mut Attributes,
    provider: &Provider,
) -> std::result::Result<PublicParts, Flaw> {
    let prepared = KeyTypeRow::of_object(attributes).and_then(|row| {
        (row.prepare)(attributes, provider)?;
        (row.public_parts)(attributes)
    });
    let parts = prepared.map_err(Flaw::Malformed)?;
    validation::check(&parts, provider)?;
    Ok(parts)
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
    (KeyTypeRow::of_object(attributes)?.put_public)(attributes, parts)
}

/// Returns whether a secret key of this type has one of several lengths, such as an AES key.
pub(crate) fn has_lengths(key_type: KeyType) -> bool {
    let fits = KeyTypeRow::of(key_type).len_fits;
    (2..64).contains(&(1..=64).filter(|len| fits(*len)).count())
}

/// Changes random or derived bytes so that they are a secret key of this type.
pub(crate) fn form_secret(key_type: KeyType, bytes: &mut [u8]) {
    (KeyTypeRow::of(key_type).form)(bytes);
}

/// Converts a backend's error about a key or a parameter that the caller supplied.
pub(crate) fn refused(error: Error) -> Error {
    match error {
        Error::DataInvalid | Error::DataLenRange => Error::AttributeValueInvalid,
        other => other,
    }
}
