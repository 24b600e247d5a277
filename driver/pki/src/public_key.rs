//! Converts public keys between PKCS#11 attributes and SubjectPublicKeyInfo.

use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CKA_CLASS, CKA_EC_PARAMS, CKA_EC_POINT, CKA_KEY_TYPE, CKA_MODULUS, CKA_PARAMETER_SET,
    CKA_PUBLIC_EXPONENT, CKA_VALUE, CKK_EC, CKK_EC_EDWARDS, CKK_RSA, CKO_PUBLIC_KEY,
};
use der::asn1::{BitString, OctetStringRef, UintRef};
use der::{Decode, Encode, Sequence};
use jeton_client::{Attribute, Failure, key_types};
use spki::SubjectPublicKeyInfoOwned;

use super::algorithm::{Algorithm, Key};
use crate::Error;

/// The name of Ed25519, `CKA_EC_PARAMS`. PKCS#11 3.0 allows it too, and SoftHSM before 2.7 accepts
/// no other form.
pub const ED25519_NAME_PARAMS: &[u8] = b"\x13\x0cedwards25519";

/// RSAPublicKey of RFC 8017.
#[derive(Sequence)]
struct RsaPublicKey<'a> {
    modulus: UintRef<'a>,
    public_exponent: UintRef<'a>,
}

/// Returns the SubjectPublicKeyInfo of a key. `read` takes an attribute and its greatest length.
pub fn subject_public_key(
    algorithm: &Algorithm,
    read: impl Fn(CK_ATTRIBUTE_TYPE, usize) -> Result<Vec<u8>, Failure>,
) -> Result<SubjectPublicKeyInfoOwned, Error> {
    let bits = match algorithm.key {
        Key::P256 => point(read(CKA_EC_POINT, 112)?, 65),
        Key::P384 => point(read(CKA_EC_POINT, 112)?, 97),
        Key::Ed25519 => point(read(CKA_EC_POINT, 80)?, 32),
        Key::MlDsa(_) | Key::SlhDsa(_) => read(CKA_VALUE, 4096)?,
        Key::Rsa(_) => {
            let (modulus, exponent) = (read(CKA_MODULUS, 1024)?, read(CKA_PUBLIC_EXPONENT, 64)?);
            let key =
                RsaPublicKey { modulus: UintRef::new(&modulus)?, public_exponent: UintRef::new(&exponent)? };
            key.to_der()?
        }
    };
    Ok(SubjectPublicKeyInfoOwned {
        algorithm: algorithm.public_key.to_owned(),
        subject_public_key: BitString::from_bytes(&bits)?,
    })
}

/// Returns templates that create a public key object from a certificate's key, without class, key
/// type and flags. There are several if modules accept different forms. The specification's form is
/// first.
pub fn public_key_attributes(algorithm: &Algorithm, bits: &[u8]) -> Result<Vec<Vec<Attribute>>, Error> {
    let wrapped = || OctetStringRef::new(bits).and_then(|point| point.to_der());
    let ec = |params: &[u8], point: Vec<u8>| {
        vec![Attribute::bytes(CKA_EC_PARAMS, params), Attribute::bytes(CKA_EC_POINT, point)]
    };
    Ok(match algorithm.key {
        Key::P256 => vec![ec(key_types::P256, wrapped()?)],
        Key::P384 => vec![ec(key_types::P384, wrapped()?)],
        // Implementations of PKCS#11 3.0 encode the Edwards point raw or in DER. Version 3.1 says
        // raw.
        Key::Ed25519 => vec![
            ec(key_types::ED25519, bits.to_vec()),
            ec(key_types::ED25519, wrapped()?),
            ec(ED25519_NAME_PARAMS, wrapped()?),
        ],
        Key::MlDsa(set) | Key::SlhDsa(set) => {
            vec![vec![Attribute::number(CKA_PARAMETER_SET, set), Attribute::bytes(CKA_VALUE, bits)]]
        }
        Key::Rsa(_) => {
            let key = RsaPublicKey::from_der(bits)?;
            vec![vec![
                Attribute::bytes(CKA_MODULUS, key.modulus.as_bytes()),
                Attribute::bytes(CKA_PUBLIC_EXPONENT, key.public_exponent.as_bytes()),
            ]]
        }
    })
}

/// Returns a template that creates a public key object of any type from a SubjectPublicKeyInfo, in
/// the form of the specification.
pub fn public_key_template(info: &SubjectPublicKeyInfoOwned) -> Result<Vec<Attribute>, Error> {
    let bits = info.subject_public_key.raw_bytes();
    let of = |kind, more: [Attribute; 2]| {
        let class = [Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY), Attribute::number(CKA_KEY_TYPE, kind)];
        class.into_iter().chain(more).collect()
    };
    let oid = info.algorithm.oid.to_der()?;
    if oid == key_types::RSA {
        let key = RsaPublicKey::from_der(bits)?;
        let modulus = Attribute::bytes(CKA_MODULUS, key.modulus.as_bytes());
        let exponent = Attribute::bytes(CKA_PUBLIC_EXPONENT, key.public_exponent.as_bytes());
        return Ok(of(CKK_RSA, [modulus, exponent]));
    }
    let curve = info.algorithm.parameters.as_ref().map(Encode::to_der).transpose()?.unwrap_or_default();
    let row = key_types::of_oid(if oid == key_types::EC { &curve } else { &oid });
    let row = row.ok_or_else(|| Error::Failed("a public key of an unknown type".to_owned()))?;
    let value = match row.kind {
        CKK_EC => Attribute::bytes(CKA_EC_POINT, OctetStringRef::new(bits)?.to_der()?),
        CKK_EC_EDWARDS => Attribute::bytes(CKA_EC_POINT, bits),
        _ => Attribute::bytes(CKA_VALUE, bits),
    };
    Ok(of(row.kind, [row.parameters(), value]))
}

/// Returns a point of `length` bytes. `CKA_EC_POINT` is a DER OCTET STRING, but some modules return
/// the raw point.
fn point(attribute: Vec<u8>, length: usize) -> Vec<u8> {
    if attribute.len() == length {
        return attribute;
    }
    match OctetStringRef::from_der(&attribute) {
        Ok(point) => point.as_bytes().to_vec(),
        Err(_) => attribute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALGORITHMS;

    fn key_of(algorithm: &Algorithm, point: &[u8]) -> Vec<u8> {
        let key =
            subject_public_key(algorithm, |_, _| Ok(point.to_vec())).expect("the attributes are complete");
        key.subject_public_key.raw_bytes().to_vec()
    }

    #[test]
    fn a_point_is_accepted_raw_and_in_der() {
        let raw: Vec<u8> = std::iter::once(4).chain(1..=64).collect();
        let wrapped = OctetStringRef::new(&raw).and_then(|point| point.to_der()).expect("65 bytes encode");
        assert_eq!(key_of(&ALGORITHMS[0], &raw), raw);
        assert_eq!(key_of(&ALGORITHMS[0], &wrapped), raw);
    }

    #[test]
    fn an_rsa_key_converts_both_ways() {
        let modulus = [0xC1; 256];
        let read = |kind, _| Ok(if kind == CKA_MODULUS { modulus.to_vec() } else { vec![1, 0, 1] });
        let rsa2048 = Algorithm::named("rsa2048").expect("it is in the table");
        let key = subject_public_key(rsa2048, read).expect("the attributes are complete");
        let back = public_key_attributes(rsa2048, key.subject_public_key.raw_bytes()).expect("as encoded");
        assert_eq!(back[0][0], Attribute::bytes(CKA_MODULUS, modulus));
        assert_eq!(Algorithm::of_public_key(&key).map(|algorithm| algorithm.name), Some("rsa2048"));
    }
}
