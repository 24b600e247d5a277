//! Converts a SubjectPublicKeyInfo to PKCS#11 attributes.

use cryptoki_sys::{
    CKA_CLASS, CKA_EC_POINT, CKA_KEY_TYPE, CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_VALUE, CKK_EC,
    CKK_EC_EDWARDS, CKK_RSA, CKO_PUBLIC_KEY,
};
use der::asn1::{OctetStringRef, UintRef};
use der::{Decode, Encode, Sequence, Tag, Tagged};
use jeton_client::{Attribute, key_types};
use spki::SubjectPublicKeyInfoOwned;

use crate::Error;

/// RSAPublicKey of RFC 8017.
#[derive(Sequence)]
pub struct RsaPublicKey<'a> {
    /// The modulus.
    pub modulus: UintRef<'a>,
    /// The public exponent.
    pub public_exponent: UintRef<'a>,
}

/// Fails if a public key has a second encoding: with parameters although its algorithm has none
/// (RFC 8410, 3; RFC 9814, 4; RFC 9881, 2), or with unused bits.
pub fn expect_one_encoding(info: &SubjectPublicKeyInfoOwned) -> Result<(), Error> {
    let oid = info.algorithm.oid.to_der()?;
    let may_have = match info.algorithm.parameters.as_ref().map(Tagged::tag) {
        None => true,
        // RFC 3279, 2.3.1.
        Some(Tag::Null) => key_types::of_oid(&oid).is_none(),
        Some(_) => key_types::of_oid(&oid).is_none() && oid != key_types::RSA,
    };
    if may_have && info.subject_public_key.unused_bits() == 0 {
        return Ok(());
    }
    Err(Error::Refused(
        "a public key with parameters that its algorithm does not have, or with unused bits".to_owned(),
    ))
}

/// Returns a template that creates a public key object of any type from a SubjectPublicKeyInfo, in
/// the form of the specification.
pub fn public_key_template(info: &SubjectPublicKeyInfoOwned) -> Result<Vec<Attribute>, Error> {
    expect_one_encoding(info)?;
    let bits = info.subject_public_key.raw_bytes();
    let of = |kind, more: [Attribute; 2]| {
        let class = [Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY), Attribute::number(CKA_KEY_TYPE, kind)];
        class.into_iter().chain(more).collect()
    };
    let oid = info.algorithm.oid.to_der()?;
    if oid == key_types::RSA || oid == key_types::RSA_PSS {
        let key = RsaPublicKey::from_der(bits)?;
        let modulus = Attribute::bytes(CKA_MODULUS, key.modulus.as_bytes());
        let exponent = Attribute::bytes(CKA_PUBLIC_EXPONENT, key.public_exponent.as_bytes());
        return Ok(of(CKK_RSA, [modulus, exponent]));
    }
    if oid == key_types::EC {
        // RFC 5480, 2.1.1: a certificate names the curve.
        let curve = info.algorithm.parameters.as_ref();
        let is_named = curve.is_some_and(|curve| curve.tag() == Tag::ObjectIdentifier);
        if !is_named {
            return Err(Error::Refused("a public key with explicit parameters".to_owned()));
        }
    }
    let curve = info.algorithm.parameters.as_ref().map(Encode::to_der).transpose()?.unwrap_or_default();
    let row = key_types::of_oid(if oid == key_types::EC { &curve } else { &oid });
    let row = row.ok_or_else(|| {
        let text = format!("a public key with the algorithm {}, which is not supported", info.algorithm.oid);
        Error::Refused(text)
    })?;
    let value = match row.kind {
        CKK_EC => Attribute::bytes(CKA_EC_POINT, OctetStringRef::new(bits)?.to_der()?),
        CKK_EC_EDWARDS => Attribute::bytes(CKA_EC_POINT, bits),
        _ => Attribute::bytes(CKA_VALUE, bits),
    };
    Ok(of(row.kind, [row.parameters(), value]))
}
