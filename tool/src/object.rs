//! Describes the objects of a token for an administrator, each with its PKCS#11 URI. Also reads
//! single attributes and public keys.

use cryptoki_sys::*;
use jeton_client::safe_text::hex;
use serde::Serialize;

use crate::Error;
use crate::client::{Attribute, ObjectHandle, Session, TokenInfo, key_types, names};
use crate::formats::certificate::public_key_of;
use crate::formats::for_pss;
use crate::time::iso;
use crate::token_file;
use crate::uri::Uri;

/// An object in a listing. The fields have the same names in the output of `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// `private`, `public`, `secret-key`, `cert` or `data`. For another class: `class` and its
    /// number. `object` if the module returns no class.
    pub class: String,
    /// The type of a key, for example `RSA 2048`, `EC P-256` or `AES 256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    pub label: String,
    /// `CKA_ID` in hexadecimal digits.
    pub id: String,
    pub usage: Vec<&'static str>,
    pub access: Vec<&'static str>,
    /// The number of times that a private key may still be used, if it is limited. The one-time
    /// keys of HSS are such a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<CK_ULONG>,
    /// The first and the last day of a key: `CKA_START_DATE` and `CKA_END_DATE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The size of a data object or a certificate in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    pub uri: String,
}

/// The attributes that make a public key of any type.
pub const PUBLIC_PARTS: [CK_ATTRIBUTE_TYPE; 9] = [
    CKA_MODULUS,
    CKA_PUBLIC_EXPONENT,
    CKA_EC_PARAMS,
    CKA_EC_POINT,
    CKA_PARAMETER_SET,
    CKA_VALUE,
    CKA_PRIME,
    CKA_SUBPRIME,
    CKA_BASE,
];

/// The mechanisms of an RSA key for RSASSA-PSS.
pub const PSS: [CK_MECHANISM_TYPE; 6] = [
    CKM_RSA_PKCS_PSS,
    CKM_SHA1_RSA_PKCS_PSS,
    CKM_SHA224_RSA_PKCS_PSS,
    CKM_SHA256_RSA_PKCS_PSS,
    CKM_SHA384_RSA_PKCS_PSS,
    CKM_SHA512_RSA_PKCS_PSS,
];

const USAGES: [(CK_ATTRIBUTE_TYPE, &str); 10] = [
    (CKA_SIGN, "sign"),
    (CKA_VERIFY, "verify"),
    (CKA_ENCRYPT, "encrypt"),
    (CKA_DECRYPT, "decrypt"),
    (CKA_WRAP, "wrap"),
    (CKA_UNWRAP, "unwrap"),
    (CKA_DERIVE, "derive"),
    (CKA_ENCAPSULATE, "encapsulate"),
    (CKA_DECAPSULATE, "decapsulate"),
    (CKA_SIGN_RECOVER, "sign-recover"),
];

const ACCESS: [(CK_ATTRIBUTE_TYPE, &str); 7] = [
    (CKA_PRIVATE, "private"),
    (CKA_SENSITIVE, "sensitive"),
    (CKA_EXTRACTABLE, "extractable"),
    (CKA_NEVER_EXTRACTABLE, "never-extractable"),
    (CKA_LOCAL, "generated"),
    (CKA_ALWAYS_AUTHENTICATE, "pin-at-each-use"),
    (CKA_TRUSTED, "trusted"),
];

/// The attributes with `CK_BBOOL` that a listing does not show.
const FLAGS: [CK_ATTRIBUTE_TYPE; 7] = [
    CKA_TOKEN,
    CKA_MODIFIABLE,
    CKA_COPYABLE,
    CKA_DESTROYABLE,
    CKA_ALWAYS_SENSITIVE,
    CKA_WRAP_WITH_TRUSTED,
    CKA_VERIFY_RECOVER,
];

/// Returns the value of an attribute in a form that does not depend on the machine: a truth value,
/// a number, text, a name or names, or bytes in hexadecimal digits.
pub fn decoded(kind: CK_ATTRIBUTE_TYPE, value: &[u8]) -> serde_json::Value {
    let is_flag = FLAGS.contains(&kind) || USAGES.iter().chain(&ACCESS).any(|(flag, _)| *flag == kind);
    let number = value.try_into().ok().map(CK_ULONG::from_ne_bytes);
    match (kind, number) {
        _ if is_flag => (value != [CK_FALSE]).into(),
        (CKA_LABEL | CKA_APPLICATION | CKA_UNIQUE_ID | CKA_URL | CKA_START_DATE | CKA_END_DATE, _) => {
            String::from_utf8_lossy(value).into()
        }
        (CKA_KEY_GEN_MECHANISM, Some(CK_UNAVAILABLE_INFORMATION)) => serde_json::Value::Null,
        (CKA_CLASS, Some(class)) => names::class(class).into(),
        (CKA_KEY_TYPE, Some(key_type)) => names::key_type(key_type).into(),
        (CKA_KEY_GEN_MECHANISM | CKA_NAME_HASH_ALGORITHM, Some(mechanism)) => {
            names::mechanism(mechanism).into()
        }
        (CKA_ALLOWED_MECHANISMS, _) => {
            let (each, _) = value.as_chunks();
            each.iter().map(|one| names::mechanism(CK_ULONG::from_ne_bytes(*one))).collect()
        }
        (CKA_EC_PARAMS, _) => {
            key_types::of_oid(value).map_or_else(|| hex(value), |row| row.name.to_owned()).into()
        }
        (CKA_CERTIFICATE_TYPE, Some(CKC_X_509)) => "CKC_X_509".into(),
        (
            CKA_CERTIFICATE_TYPE
            | CKA_CERTIFICATE_CATEGORY
            | CKA_MODULUS_BITS
            | CKA_PRIME_BITS
            | CKA_VALUE_BITS
            | CKA_VALUE_LEN
            | CKA_PARAMETER_SET
            | CKA_HSS_LEVELS
            | CKA_HSS_KEYS_REMAINING
            | CKA_OBJECT_VALIDATION_FLAGS
            | names::JETON_USES
            | names::JETON_USES_LEFT
            | names::JETON_NEXT_KEY,
            Some(number),
        ) => number.into(),
        _ => hex(value).into(),
    }
}

/// The classes of objects, with their names in URIs and listings.
pub const CLASSES: [(CK_OBJECT_CLASS, &str); 5] = [
    (CKO_PRIVATE_KEY, "private"),
    (CKO_PUBLIC_KEY, "public"),
    (CKO_SECRET_KEY, "secret-key"),
    (CKO_CERTIFICATE, "cert"),
    (CKO_DATA, "data"),
];

pub fn class_named(name: &str) -> Option<CK_OBJECT_CLASS> {
    CLASSES.iter().find(|(_, known)| *known == name).map(|(class, _)| *class)
}

pub fn describe(session: &Session, token: &TokenInfo, object: ObjectHandle) -> Description {
    let class = session.number(object, CKA_CLASS);
    let known = CLASSES.iter().find(|(number, _)| Some(*number) == class).map(|(_, name)| (*name).to_owned());
    let set = |table: &[(CK_ATTRIBUTE_TYPE, &'static str)]| {
        let fits = table.iter().filter(|(kind, _)| session.flag(object, *kind));
        fits.map(|(_, name)| *name).collect::<Vec<_>>()
    };
    let is_key = matches!(class, Some(CKO_PRIVATE_KEY | CKO_PUBLIC_KEY | CKO_SECRET_KEY));
    let sized = matches!(class, Some(CKO_DATA | CKO_CERTIFICATE));
    let label = String::from_utf8_lossy(&session.bytes(object, CKA_LABEL)).into_owned();
    let id = session.bytes(object, CKA_ID);
    let uri = Uri {
        model: Some(token.model.clone()),
        manufacturer: Some(token.manufacturer.clone()),
        serial: Some(token.serial.clone()),
        token: Some(token.label.clone()),
        object: Some(label.clone()).filter(|label| !label.is_empty()),
        id: Some(id.clone()).filter(|id| !id.is_empty()),
        class: known.clone(),
        ..Uri::default()
    };
    Description {
        class: known
            .unwrap_or_else(|| class.map_or("object".to_owned(), |class| format!("class 0x{class:X}"))),
        key_type: is_key.then(|| key_type(session, object)),
        usage: if is_key { set(&USAGES) } else { Vec::new() },
        access: set(&ACCESS),
        uses_left: class
            .filter(|class| *class == CKO_PRIVATE_KEY)
            .and_then(|_| uses(session, object))
            .map(|uses| uses.left),
        start: Some(CKA_START_DATE).filter(|_| is_key).and_then(|kind| iso(&session.bytes(object, kind))),
        end: Some(CKA_END_DATE).filter(|_| is_key).and_then(|kind| iso(&session.bytes(object, kind))),
        size: sized.then(|| session.bytes(object, CKA_VALUE).len()),
        id: hex(&id),
        uri: uri.to_string(),
        label,
    }
}

/// The uses of a private key that may be used a limited number of times.
pub struct Uses {
    pub left: CK_ULONG,
    /// How many there were at first. Only Jeton's keys show it.
    pub at_first: Option<CK_ULONG>,
}

/// Returns the uses of a private key, if they are limited.
pub fn uses(session: &Session, key: ObjectHandle) -> Option<Uses> {
    let number = |kind| session.number(key, kind);
    let one_time_keys = number(CKA_HSS_KEYS_REMAINING).map(|left| {
        let at_first = number(names::JETON_NEXT_KEY).and_then(|used| used.checked_add(left));
        Uses { left, at_first }
    });
    let limit = number(names::JETON_USES_LEFT).map(|left| Uses { left, at_first: number(names::JETON_USES) });
    one_time_keys.into_iter().chain(limit).min_by_key(|uses| uses.left)
}

/// Returns the type of a key with its size, curve or parameter set, for example `RSA 2048`.
pub fn key_type(session: &Session, key: ObjectHandle) -> String {
    let Some(kind) = session.number(key, CKA_KEY_TYPE) else { return "unknown type".to_owned() };
    let curve = || {
        let parameters = session.bytes(key, CKA_EC_PARAMS);
        let row = key_types::of_oid(&parameters);
        row.map_or_else(|| format!("curve {}", hex(&parameters)), |row| row.name.to_owned())
    };
    let set = |family: &str| {
        let set = session.number(key, CKA_PARAMETER_SET).unwrap_or_default();
        key_types::of_set(kind, set).map_or_else(|| format!("{family}-?"), |row| row.name.to_owned())
    };
    let bits = || 8 * session.number(key, CKA_VALUE_LEN).unwrap_or_default();
    match kind {
        CKK_RSA => format!("RSA {}", modulus_bits(&session.bytes(key, CKA_MODULUS))),
        CKK_EC => format!("EC {}", curve()),
        CKK_EC_EDWARDS | CKK_EC_MONTGOMERY => curve(),
        CKK_ML_DSA => set("ML-DSA"),
        CKK_ML_KEM => set("ML-KEM"),
        CKK_SLH_DSA => set("SLH-DSA"),
        names::CKK_JETON_COMPOSITE_ML_DSA => set("MLDSA"),
        CKK_HSS => "HSS".to_owned(),
        CKK_XMSS => "XMSS".to_owned(),
        CKK_XMSSMT => "XMSS^MT".to_owned(),
        CKK_AES => format!("AES {}", bits()),
        CKK_GENERIC_SECRET => format!("generic {}", bits()),
        CKK_DES3 => "triple DES".to_owned(),
        CKK_CHACHA20 => "ChaCha20".to_owned(),
        CKK_DSA => "DSA".to_owned(),
        CKK_DH => "DH".to_owned(),
        other => format!("type 0x{other:X}"),
    }
}

pub fn modulus_bits(modulus: &[u8]) -> CK_ULONG {
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let unused = modulus.get(zeros).map_or(0, |first| first.leading_zeros() as usize);
    (8 * (modulus.len() - zeros) - unused) as CK_ULONG
}

/// Returns the public key of a key or certificate object as SubjectPublicKeyInfo. A private key
/// without `CKA_PUBLIC_KEY_INFO` needs a public key object with the same ID and type.
/// The encoding says whether the key is for RSASSA-PSS only.
pub fn public_key_info(session: &Session, object: ObjectHandle) -> Result<Vec<u8>, Error> {
    let info = encoded_key(session, object)?;
    let allowed = session.bytes(object, CKA_ALLOWED_MECHANISMS);
    let is_pss = |one: &[u8]| PSS.iter().any(|known| known.to_ne_bytes() == one);
    let is_for_pss = !allowed.is_empty() && allowed.chunks(size_of::<CK_MECHANISM_TYPE>()).all(is_pss);
    Ok(Some(&info).filter(|_| is_for_pss).and_then(|info| for_pss(info)).unwrap_or(info))
}

fn encoded_key(session: &Session, object: ObjectHandle) -> Result<Vec<u8>, Error> {
    let none = || Error::Failed("the module shows no public key for this object".to_owned());
    let info = session.bytes(object, CKA_PUBLIC_KEY_INFO);
    if !info.is_empty() {
        return Ok(info);
    }
    if session.number(object, CKA_CLASS) == Some(CKO_CERTIFICATE) {
        return Ok(public_key_of(&session.bytes(object, CKA_VALUE))?);
    }
    let public = match session.number(object, CKA_CLASS) {
        Some(CKO_PRIVATE_KEY) => partner(session, object).ok_or_else(none)?,
        Some(CKO_PUBLIC_KEY) => object,
        _ => return Err(none()),
    };
    let kinds = [&[CKA_KEY_TYPE], &PUBLIC_PARTS[..]].concat();
    let values = session.attributes(public, &kinds)?.into_iter().zip(kinds);
    let parts: Vec<_> =
        values.filter_map(|(value, kind)| value.map(|value| Attribute::bytes(kind, value))).collect();
    token_file::public_key_info(&parts).ok_or_else(none)
}

/// Returns the public key object with the same ID and type as a private key. Returns `None` unless
/// there is exactly one.
pub fn partner(session: &Session, private: ObjectHandle) -> Option<ObjectHandle> {
    let id = session.bytes(private, CKA_ID);
    let template = [
        Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
        Attribute::number(CKA_KEY_TYPE, session.number(private, CKA_KEY_TYPE)?),
        Attribute::bytes(CKA_ID, id),
    ];
    match session.find(&template).ok()?.as_slice() {
        [public] => Some(*public),
        _ => None,
    }
}
