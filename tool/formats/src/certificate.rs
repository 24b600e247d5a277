//! Reads the fields of X.509 certificates that an import, an export or a listing needs.

use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode, Result};

/// The names in a certificate. Subject, issuer and serial number are in DER.
pub struct Names {
    /// The subject.
    pub subject: Vec<u8>,
    /// The issuer.
    pub issuer: Vec<u8>,
    /// The serial number as a DER integer.
    pub serial: Vec<u8>,
    /// The common name, or the whole subject.
    pub title: String,
}

/// Reads the names in a certificate.
pub fn names(der: &[u8]) -> Result<Names> {
    let certificate = Certificate::from_der(der)?.tbs_certificate;
    let subject = certificate.subject.to_string();
    let common = subject.split(',').find_map(|part| part.strip_prefix("CN=")).map(str::to_owned);
    Ok(Names {
        subject: certificate.subject.to_der()?,
        issuer: certificate.issuer.to_der()?,
        serial: certificate.serial_number.to_der()?,
        title: common.unwrap_or(subject),
    })
}

/// The fields of a certificate that a listing shows.
pub struct Summary {
    /// The subject in the form of RFC 4514.
    pub subject: String,
    /// The issuer in the same form.
    pub issuer: String,
    /// The bytes of the serial number, big-endian.
    pub serial: Vec<u8>,
    /// The last second of its validity.
    pub not_after: String,
}

/// Summarises a certificate.
pub fn summary(der: &[u8]) -> Result<Summary> {
    let certificate = Certificate::from_der(der)?.tbs_certificate;
    Ok(Summary {
        subject: certificate.subject.to_string(),
        issuer: certificate.issuer.to_string(),
        serial: certificate.serial_number.as_bytes().to_vec(),
        not_after: certificate.validity.not_after.to_date_time().to_string(),
    })
}

/// Returns the public key of a certificate as SubjectPublicKeyInfo.
pub fn public_key_of(der: &[u8]) -> Result<Vec<u8>> {
    Certificate::from_der(der)?.tbs_certificate.subject_public_key_info.to_der()
}
