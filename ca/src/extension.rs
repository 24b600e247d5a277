//! The extensions of RFC 5280 that CAs use.

use const_oid::db::rfc5280::ID_KP_TIME_STAMPING;
use const_oid::{AssociatedOid, ObjectIdentifier};
use der::Encode;
use der::asn1::{OctetString, Uint};
use der::flagset::FlagSet;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, CrlNumber, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectKeyIdentifier,
};

pub(super) fn ca_basic_constraints(path_len_constraint: Option<u8>) -> der::Result<Extension> {
    encoded(true, &BasicConstraints { ca: true, path_len_constraint })
}

pub(super) fn leaf_basic_constraints() -> der::Result<Extension> {
    encoded(true, &BasicConstraints { ca: false, path_len_constraint: None })
}

pub(super) fn key_usage(usages: impl Into<FlagSet<KeyUsages>>) -> der::Result<Extension> {
    encoded(true, &KeyUsage(usages.into()))
}

pub(super) fn subject_key_identifier(id: &[u8]) -> der::Result<Extension> {
    encoded(false, &SubjectKeyIdentifier(OctetString::new(id)?))
}

pub(super) fn authority_key_identifier(id: &[u8]) -> der::Result<Extension> {
    let key_identifier = Some(OctetString::new(id)?);
    encoded(false, &AuthorityKeyIdentifier { key_identifier, ..Default::default() })
}

pub(super) fn extended_key_usage(purposes: Vec<ObjectIdentifier>) -> der::Result<Extension> {
    // RFC 3161, 2.3: the usage of a time stamping authority is critical.
    encoded(purposes == [ID_KP_TIME_STAMPING], &ExtendedKeyUsage(purposes))
}

pub(super) fn crl_number(number: u64) -> der::Result<Extension> {
    encoded(false, &CrlNumber(Uint::new(&number.to_be_bytes())?))
}

fn encoded<E: AssociatedOid + Encode>(critical: bool, extension: &E) -> der::Result<Extension> {
    Ok(Extension { extn_id: E::OID, critical, extn_value: OctetString::new(extension.to_der()?)? })
}
