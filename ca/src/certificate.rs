//! Certificates and requests that are made with a key of a token.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use der::asn1::{GeneralizedTime, SetOfVec, UtcTime};
use der::{Any, DateTime, Decode, Encode};
use jeton_pki::signer::{Signer, key_id};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};
use x509_cert::TbsCertificate;
use x509_cert::attr::Attribute as RequestAttribute;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{KeyUsages, SubjectAltName};
use x509_cert::ext::{AsExtension, Extension};
use x509_cert::name::Name;
use x509_cert::request::CertReqInfo;
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};

use super::extension;
use super::name::{self, general_name};
use crate::Error;

/// What a request or a certificate says about its holder.
pub struct Holder {
    /// The subject.
    pub subject: Name,
    /// The other names: `dns:`, `ip:`, `email:`, `uri:`, `upn:`.
    pub names: Vec<GeneralName>,
}

impl Holder {
    /// Reads the options `--subject` and `--san`.
    pub fn parse(subject: &str, names: &[String]) -> Result<Self, Error> {
        let wrong = |_| {
            Error::Usage(format!(
                "{subject:?} is not a subject; write it as in \"CN=www.example.org,O=Example\""
            ))
        };
        let subject = subject.parse::<Name>().map_err(wrong)?;
        if subject.0.is_empty() && names.is_empty() {
            return Err(Error::Usage("the subject is empty".to_owned()));
        }
        let names = names.iter().map(|name| general_name(name)).collect::<Result<Vec<_>, _>>()?;
        name::check(&subject, &names)?;
        Ok(Self { subject, names })
    }

    pub(crate) fn extension(&self) -> Result<Option<Extension>, Error> {
        if self.names.is_empty() {
            return Ok(None);
        }
        Ok(Some(SubjectAltName(self.names.clone()).to_extension(&self.subject, &[])?))
    }
}

/// The attribute extensionRequest of PKCS #9.
pub(crate) const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");

/// Returns a certificate request (PKCS #10) as bytes to sign.
pub fn request_tbs(info: &[u8], holder: &Holder) -> Result<Vec<u8>, Error> {
    let mut attributes = SetOfVec::new();
    if let Some(extension) = holder.extension()? {
        let values = SetOfVec::try_from(vec![Any::from_der(&vec![extension].to_der()?)?])?;
        attributes.insert(RequestAttribute { oid: EXTENSION_REQUEST, values })?;
    }
    let request = CertReqInfo {
        version: x509_cert::request::Version::V1,
        subject: holder.subject.clone(),
        public_key: SubjectPublicKeyInfoOwned::from_der(info)?,
        attributes,
    };
    Ok(request.to_der()?)
}

/// The role of a self-signed certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A certificate authority.
    Authority,
    /// A server or a user.
    Leaf,
}

/// Returns a self-signed certificate as bytes to sign. The caller passes a random `serial`.
pub fn self_signed_tbs(
    info: &[u8],
    holder: &Holder,
    signer: &Signer,
    role: Role,
    days: u32,
    serial: [u8; 16],
) -> Result<Vec<u8>, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = |time: Duration| DateTime::from_unix_duration(Duration::from_secs(time.as_secs())).and_then(utc);
    let end = now + Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    let too_long = |_| Error::Usage("--days leads beyond the year 9999".to_owned());
    let ca = role == Role::Authority;
    let usages = if ca {
        KeyUsages::KeyCertSign | KeyUsages::CRLSign | KeyUsages::DigitalSignature
    } else {
        KeyUsages::DigitalSignature.into()
    };
    let mut extensions = vec![
        if ca { extension::ca_basic_constraints(None)? } else { extension::leaf_basic_constraints()? },
        extension::key_usage(usages)?,
        extension::subject_key_identifier(&key_id(info)?)?,
    ];
    extensions.extend(holder.extension()?);
    let certificate = TbsCertificate {
        version: x509_cert::Version::V3,
        serial_number: SerialNumber::new(&positive(serial))?,
        signature: signer.algorithm.clone(),
        issuer: holder.subject.clone(),
        validity: Validity { not_before: at(now)?, not_after: at(end).map_err(too_long)? },
        subject: holder.subject.clone(),
        subject_public_key_info: SubjectPublicKeyInfoOwned::from_der(info)?,
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(extensions),
    };
    Ok(certificate.to_der()?)
}

/// Returns the serial number with its highest bits set to 01. RFC 5280, 4.1.2.2: a positive integer
/// of at most 20 bytes.
pub(crate) fn positive(mut serial: [u8; 16]) -> [u8; 16] {
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

/// Encodes a time. RFC 5280 4.1.2.5 asks for UTCTime through 2049.
pub(crate) fn utc(time: DateTime) -> der::Result<Time> {
    Ok(match UtcTime::from_date_time(time) {
        Ok(time) => Time::UtcTime(time),
        Err(_) => Time::GeneralTime(GeneralizedTime::from_date_time(time)),
    })
}
