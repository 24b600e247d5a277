//! A public key as SubjectPublicKeyInfo (RFC 5280, 4.1.2.7): the value of `CKA_PUBLIC_KEY_INFO`.
//!
//! The key inside is encoded as in RFC 3279 (RSA, DSA), PKCS #3 (Diffie-Hellman), RFC 5480 (EC) and
//! RFC 8410 (Edwards and Montgomery curves). Keys with a parameter set follow RFC 9881 (ML-DSA),
//! RFC 9935 (ML-KEM) and RFC 9909 (SLH-DSA).

use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, UintRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use pkcs1::RsaPublicKey;
use pkcs8::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use super::pkcs8::{DH, DSA, EC, RSA, dh_group, dss_parms, set_identifier};
use crate::backend::PublicParts;
use crate::error::{Error, Result};
use crate::id::KeyType;
use crate::mechanism::curve::{Group, named_group};
use crate::mechanism::{ml_dsa_number, ml_kem_number, slh_dsa_number};

/// Returns the DER of a public key.
pub(crate) fn encode(parts: &PublicParts) -> Result<Vec<u8>> {
    match parts {
        PublicParts::Rsa { n, e } => {
            let (modulus, public_exponent) =
                (UintRef::new(n).map_err(wrong)?, UintRef::new(e).map_err(wrong)?);
            let key = RsaPublicKey { modulus, public_exponent }.to_der().map_err(wrong)?;
            info(RSA, Some(AnyRef::NULL), &key)
        }
        PublicParts::Ec { curve, point } => {
            let name = AnyRef::from_der(identifier(Group::Ec(*curve))?).map_err(wrong)?;
            info(EC, Some(name), point)
        }
        PublicParts::Dsa { group, value } => {
            let group = dss_parms(group)?;
            let key = UintRef::new(value).and_then(|value| value.to_der()).map_err(wrong)?;
            info(DSA, Some(AnyRef::from_der(&group).map_err(wrong)?), &key)
        }
        PublicParts::Dh { prime, base, value } => {
            let group = dh_group(prime, base, None)?;
            let key = UintRef::new(value).and_then(|value| value.to_der()).map_err(wrong)?;
            info(DH, Some(AnyRef::from_der(&group).map_err(wrong)?), &key)
        }
        PublicParts::Ed25519 { point } => on_curve(Group::Ed25519, point),
        PublicParts::Ed448 { point } => on_curve(Group::Ed448, point),
        PublicParts::X25519 { point } => on_curve(Group::X25519, point),
        PublicParts::X448 { point } => on_curve(Group::X448, point),
        PublicParts::MlDsa { set, key } => of_set(KeyType::ML_DSA, ml_dsa_number(*set), key),
        PublicParts::MlKem { set, key } => of_set(KeyType::ML_KEM, ml_kem_number(*set), key),
        PublicParts::SlhDsa { set, key } => of_set(KeyType::SLH_DSA, slh_dsa_number(*set), key),
    }
}

/// Returns the DER of the public key in an X.509 certificate (RFC 5280, 4.1). It is the seventh
/// field, or the sixth if the certificate has no version field.
pub(crate) fn of_certificate(certificate: &[u8]) -> Result<Vec<u8>> {
    let outer = AnyRef::from_der(certificate).map_err(wrong)?;
    let mut outer = SliceReader::new(sequence(&outer)?).map_err(wrong)?;
    let inner = AnyRef::decode(&mut outer).map_err(wrong)?;
    let mut fields = SliceReader::new(sequence(&inner)?).map_err(wrong)?;
    let versioned = matches!(Tag::peek(&fields).map_err(wrong)?, Tag::ContextSpecific { .. });
    for _ in 0..5 + usize::from(versioned) {
        AnyRef::decode(&mut fields).map_err(wrong)?;
    }
    let key = fields.tlv_bytes().map_err(wrong)?;
    SubjectPublicKeyInfoRef::from_der(key).map_err(wrong)?;
    Ok(key.to_vec())
}

fn sequence<'a>(any: &AnyRef<'a>) -> Result<&'a [u8]> {
    if any.tag() == Tag::Sequence { Ok(any.value()) } else { Err(Error::AttributeValueInvalid) }
}

fn on_curve(group: Group, point: &[u8]) -> Result<Vec<u8>> {
    info(ObjectIdentifier::from_der(identifier(group)?).map_err(wrong)?, None, point)
}

fn of_set(key_type: KeyType, set: u64, key: &[u8]) -> Result<Vec<u8>> {
    info(set_identifier(key_type, set)?, None, key)
}

fn identifier(group: Group) -> Result<&'static [u8]> {
    named_group(group).map(|named| named.oid).ok_or(Error::GeneralError)
}

fn info(oid: ObjectIdentifier, parameters: Option<AnyRef<'_>>, key: &[u8]) -> Result<Vec<u8>> {
    let algorithm = AlgorithmIdentifierRef { oid, parameters };
    let subject_public_key = BitStringRef::from_bytes(key).map_err(wrong)?;
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().map_err(wrong)
}

fn wrong<E>(_: E) -> Error {
    Error::AttributeValueInvalid
}
