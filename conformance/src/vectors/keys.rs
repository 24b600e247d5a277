//! The templates of the keys of the vectors.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, ObjectHandle, key_types};
use jeton_vectors::{Curve, Miss, PublicKey, RsaKey};

use crate::fixture::{Fixture, able, bytes, number, open_key};

fn template(
    class: CK_OBJECT_CLASS,
    kind: CK_KEY_TYPE,
    parts: &[(CK_ATTRIBUTE_TYPE, &[u8])],
    uses: &[CK_ATTRIBUTE_TYPE],
) -> Vec<Attribute> {
    let mut template = able(open_key(class, kind), uses);
    template.extend(parts.iter().map(|(part, value)| bytes(*part, *value)));
    template
}

pub fn secret(kind: CK_KEY_TYPE, value: &[u8], uses: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    template(CKO_SECRET_KEY, kind, &[(CKA_VALUE, value)], uses)
}

pub fn verifying(key: &PublicKey) -> Vec<Attribute> {
    let public =
        |kind, parts: &[(CK_ATTRIBUTE_TYPE, &[u8])]| template(CKO_PUBLIC_KEY, kind, parts, &[CKA_VERIFY]);
    match key {
        PublicKey::Rsa { n, e } => public(CKK_RSA, &[(CKA_MODULUS, n), (CKA_PUBLIC_EXPONENT, e)]),
        PublicKey::Ec { curve, point } => {
            public(key_type(curve), &[(CKA_EC_PARAMS, curve.oid), (CKA_EC_POINT, &octets(point))])
        }
        PublicKey::MlDsa { set, key } => {
            with_set(CKO_PUBLIC_KEY, CKK_ML_DSA, set, CKA_VERIFY, (CKA_VALUE, key))
        }
        PublicKey::Stateful { family, key } if family == "HSS" => public(CKK_HSS, &[(CKA_VALUE, key)]),
        PublicKey::Stateful { family, key } => {
            let kind = if family == "XMSS" { CKK_XMSS } else { CKK_XMSSMT };
            let set = key.iter().take(4).fold(0, |set, byte| set << 8 | CK_ULONG::from(*byte));
            let mut template = public(kind, &[(CKA_VALUE, key)]);
            template.push(number(CKA_PARAMETER_SET, set));
            template
        }
    }
}

pub fn decrypting(key: &RsaKey) -> Vec<Attribute> {
    let parts = [
        (CKA_MODULUS, &key.n[..]),
        (CKA_PUBLIC_EXPONENT, &key.e),
        (CKA_PRIVATE_EXPONENT, &key.d),
        (CKA_PRIME_1, &key.p),
        (CKA_PRIME_2, &key.q),
        (CKA_EXPONENT_1, &key.dp),
        (CKA_EXPONENT_2, &key.dq),
        (CKA_COEFFICIENT, &key.qinv),
    ];
    template(CKO_PRIVATE_KEY, CKK_RSA, &parts, &[CKA_DECRYPT])
}

pub fn on_curve(curve: &Curve, value: &[u8], usage: CK_ATTRIBUTE_TYPE) -> Vec<Attribute> {
    let parts = [(CKA_EC_PARAMS, curve.oid), (CKA_VALUE, value)];
    template(CKO_PRIVATE_KEY, key_type(curve), &parts, &[usage])
}

/// Returns the template of a key of ML-DSA, ML-KEM or SLH-DSA, with its value or its seed.
pub fn with_set(
    class: CK_OBJECT_CLASS,
    kind: CK_KEY_TYPE,
    set: &str,
    usage: CK_ATTRIBUTE_TYPE,
    part: (CK_ATTRIBUTE_TYPE, &[u8]),
) -> Vec<Attribute> {
    let known = key_types::named(&set.to_lowercase());
    let known = known.unwrap_or_else(|| panic!("unknown parameter set {set}"));
    let mut template = template(class, kind, &[part], &[usage]);
    template.push(known.parameters());
    template
}

fn key_type(curve: &Curve) -> CK_KEY_TYPE {
    match curve.name {
        "edwards25519" | "edwards448" => CKK_EC_EDWARDS,
        "curve25519" | "curve448" => CKK_EC_MONTGOMERY,
        _ => CKK_EC,
    }
}

/// Returns a DER octet string, with the short or the long form of its length.
fn octets(bytes: &[u8]) -> Vec<u8> {
    let head: &[u8] = if bytes.len() < 128 { &[4] } else { &[4, 0x81] };
    [head, &[bytes.len() as u8], bytes].concat()
}

/// Calls `work` with a key that exists during the call. If the module does not have keys of that
/// size or on that curve, the vector cannot be expressed.
pub fn with_key<T>(
    fixture: &Fixture<'_>,
    template: &[Attribute],
    work: impl FnOnce(ObjectHandle) -> Result<T, Miss<Failure>>,
) -> Result<T, Miss<Failure>> {
    let key = match fixture.create_object(template) {
        Err(Failure { code: CKR_KEY_SIZE_RANGE | CKR_CURVE_NOT_SUPPORTED, .. }) => {
            return Err(Miss::Inexpressible);
        }
        other => other?,
    };
    let outcome = work(key);
    // A failure here is not a result of this vector.
    let _ = fixture.destroy_object(key);
    outcome
}

/// Returns the value of a derived key, and destroys the key.
pub fn value_of(fixture: &Fixture<'_>, key: ObjectHandle) -> Result<Vec<u8>, Miss<Failure>> {
    let value = fixture.attribute(key, CKA_VALUE);
    let _ = fixture.destroy_object(key);
    Ok(value?)
}
