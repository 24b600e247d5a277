//! A CA without its private key: its name, its key identifier, and the bytes that it signs.
//!
//! Parts that all certificates of a batch share are built once. The baseline and the modules use
//! the same code, so this code causes no difference between their times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use const_oid::ObjectIdentifier;
use const_oid::db::rfc4519::CN;
use der::asn1::{BitString, GeneralizedTime, OctetString, PrintableStringRef, SetOfVec, UtcTime};
use der::{Any, DateTime, Encode};
use spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::crl::{RevokedCert, TbsCertList};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::KeyUsages;
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};
use x509_cert::{TbsCertificate, Version};
use x509_ocsp::{
    CertId, CertStatus, OcspGeneralizedTime, ResponderId, ResponseData, RevokedInfo, SingleResponse,
};

use super::algorithm::Algorithm;
use super::{Signed, extension, ocsp_response};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// RFC 5019, 2.1.1: clients use SHA-1 in a CertID. The hashes in a CertID only identify the issuer.
/// They protect nothing.
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// A CA.
pub struct Authority {
    /// The CA's algorithm.
    pub algorithm: &'static Algorithm,
    name: Name,
    public_key: SubjectPublicKeyInfoOwned,
    key_id: OctetString,
    signature_algorithm: AlgorithmIdentifierOwned,
    serial: u64,
    now: DateTime,
    validity: Validity,
    leaf_extensions: [Extension; 3],
    ocsp: ResponseData,
}

impl Authority {
    /// Makes a CA with this key. Its certificate is valid for 30 days from now.
    pub fn new(algorithm: &'static Algorithm, public_key: SubjectPublicKeyInfoOwned) -> der::Result<Self> {
        Self::named(algorithm, public_key, "Jeton pipeline CA")
    }

    /// Makes a CA with this common name.
    pub fn named(
        algorithm: &'static Algorithm,
        public_key: SubjectPublicKeyInfoOwned,
        common: &str,
    ) -> der::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = DateTime::from_unix_duration(Duration::from_secs(since_epoch.as_secs()))?;
        let key_id = key_identifier(&public_key.subject_public_key)?;
        let name = common_name(common)?;
        Ok(Self {
            algorithm,
            signature_algorithm: algorithm.signature.to_owned(),
            // Subscribers get the serial numbers from 1 on. The CA's own serial number is larger.
            serial: since_epoch.as_micros() as u64,
            validity: Validity { not_before: utc(now)?, not_after: utc(later(now, 30)?)? },
            leaf_extensions: [
                extension::leaf_basic_constraints()?,
                extension::key_usage(KeyUsages::DigitalSignature)?,
                extension::authority_key_identifier(key_id.as_bytes())?,
            ],
            ocsp: ocsp_frame(&name, &key_id, now)?,
            now,
            name,
            public_key,
            key_id,
        })
    }

    /// Returns the CA's own certificate as bytes to sign.
    pub fn certificate_tbs(&self) -> der::Result<Vec<u8>> {
        let usages = KeyUsages::KeyCertSign | KeyUsages::CRLSign | KeyUsages::DigitalSignature;
        let extensions = vec![
            extension::ca_basic_constraints(Some(0))?,
            extension::key_usage(usages)?,
            extension::subject_key_identifier(self.key_id.as_bytes())?,
        ];
        self.tbs_certificate(
            self.serial,
            self.name.clone(),
            self.public_key.clone(),
            self.validity,
            extensions,
        )
        .to_der()
    }

    /// Returns the certificate of a CA below this one, or of this one itself, as bytes to sign. The
    /// owner of the certificate may issue certificates to further CAs.
    pub fn subordinate_tbs(&self, serial: u64, below: &Self) -> der::Result<Vec<u8>> {
        let extensions = vec![
            extension::ca_basic_constraints(None)?,
            extension::key_usage(KeyUsages::KeyCertSign | KeyUsages::CRLSign)?,
            extension::subject_key_identifier(below.key_id.as_bytes())?,
            extension::authority_key_identifier(self.key_id.as_bytes())?,
        ];
        self.tbs_certificate(serial, below.name.clone(), below.public_key.clone(), self.validity, extensions)
            .to_der()
    }

    /// Returns a subscriber's certificate as bytes to sign.
    pub fn leaf_tbs(&self, serial: u64, key: SubjectPublicKeyInfoOwned) -> der::Result<Vec<u8>> {
        let subject = common_name(&format!("Subscriber {serial}"))?;
        let extensions = self.leaf_extensions(&key)?;
        self.tbs_certificate(serial, subject, key, self.validity, extensions).to_der()
    }

    /// Returns the certificate that a subscriber asked for, as bytes to sign. `names` is the value
    /// of the extension subjectAltName. The certificate is valid for this number of days.
    pub fn requested_tbs(
        &self,
        serial: u64,
        subject: Name,
        names: &[u8],
        key: SubjectPublicKeyInfoOwned,
        days: u32,
    ) -> der::Result<Vec<u8>> {
        let mut extensions = self.leaf_extensions(&key)?;
        extensions.push(extension::subject_alt_name(names)?);
        let validity =
            Validity { not_before: self.validity.not_before, not_after: utc(later(self.now, days)?)? };
        self.tbs_certificate(serial, subject, key, validity, extensions).to_der()
    }

    fn leaf_extensions(&self, key: &SubjectPublicKeyInfoOwned) -> der::Result<Vec<Extension>> {
        let id = key_identifier(&key.subject_public_key)?;
        let mut extensions = Vec::with_capacity(self.leaf_extensions.len() + 2);
        extensions.extend_from_slice(&self.leaf_extensions);
        extensions.push(extension::subject_key_identifier(id.as_bytes())?);
        Ok(extensions)
    }

    /// Returns a CRL that revokes the serial numbers from 1 to `count`, as bytes to sign.
    pub fn crl_tbs(&self, number: u64, count: u64) -> der::Result<Vec<u8>> {
        let this_update = utc(self.now)?;
        let revoked = |serial| RevokedCert {
            serial_number: SerialNumber::from(serial),
            revocation_date: this_update,
            crl_entry_extensions: None,
        };
        let list = TbsCertList {
            version: Version::V2,
            signature: self.signature_algorithm.clone(),
            issuer: self.name.clone(),
            this_update,
            next_update: Some(utc(later(self.now, 7)?)?),
            // RFC 5280 5.1.2.6: the list is absent if it would be empty.
            revoked_certificates: (count > 0).then(|| (1..=count).map(revoked).collect()),
            crl_extensions: Some(vec![
                extension::authority_key_identifier(self.key_id.as_bytes())?,
                extension::crl_number(number)?,
            ]),
        };
        list.to_der()
    }

    /// Returns the response data for one serial number as bytes to sign. The status is revoked, as
    /// in the CRL.
    pub fn ocsp_tbs(&self, serial: u64) -> der::Result<Vec<u8>> {
        let mut data = self.ocsp.clone();
        for response in &mut data.responses {
            response.cert_id.serial_number = SerialNumber::from(serial);
        }
        data.to_der()
    }

    /// Joins the signed bytes of a certificate or CRL with the signature.
    pub fn assemble(&self, tbs: &[u8], signature: &[u8]) -> der::Result<Vec<u8>> {
        Signed::assemble(tbs, &self.signature_algorithm, signature)
    }

    /// Joins the signed bytes of an OCSP response with the signature.
    pub fn assemble_ocsp(&self, tbs: &[u8], signature: &[u8]) -> der::Result<Vec<u8>> {
        ocsp_response(self.assemble(tbs, signature)?)
    }

    fn tbs_certificate(
        &self,
        serial: u64,
        subject: Name,
        subject_public_key_info: SubjectPublicKeyInfoOwned,
        validity: Validity,
        extensions: Vec<Extension>,
    ) -> TbsCertificate {
        TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::from(serial),
            signature: self.signature_algorithm.clone(),
            issuer: self.name.clone(),
            validity,
            subject,
            subject_public_key_info,
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(extensions),
        }
    }
}

/// Returns response data with the serial number 0, which [`Authority::ocsp_tbs`] replaces.
fn ocsp_frame(name: &Name, key_id: &OctetString, now: DateTime) -> der::Result<ResponseData> {
    let at = |time| OcspGeneralizedTime(GeneralizedTime::from_date_time(time));
    let name_hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &name.to_der()?);
    let cert_id = CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters: Some(Any::from(der::asn1::Null)) },
        issuer_name_hash: OctetString::new(name_hash.as_ref())?,
        issuer_key_hash: key_id.clone(),
        serial_number: SerialNumber::from(0u64),
    };
    let revoked = RevokedInfo { revocation_time: at(now), revocation_reason: None };
    Ok(ResponseData {
        version: x509_ocsp::Version::V1,
        responder_id: ResponderId::ByKey(key_id.clone()),
        produced_at: at(now),
        responses: vec![SingleResponse {
            cert_id,
            cert_status: CertStatus::revoked(revoked),
            this_update: at(now),
            next_update: Some(at(later(now, 7)?)),
            single_extensions: None,
        }],
        response_extensions: None,
    })
}

/// Returns the key identifier of RFC 5280 4.2.1.2, method 1. OCSP's issuerKeyHash is the same.
fn key_identifier(key: &BitString) -> der::Result<OctetString> {
    OctetString::new(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.raw_bytes()).as_ref())
}

fn common_name(text: &str) -> der::Result<Name> {
    let value = Any::from(PrintableStringRef::new(text)?);
    let attribute = AttributeTypeAndValue { oid: CN, value };
    Ok(RdnSequence(vec![RelativeDistinguishedName(SetOfVec::try_from([attribute])?)]))
}

/// Encodes a time. RFC 5280 4.1.2.5 asks for UTCTime through 2049.
pub(super) fn utc(time: DateTime) -> der::Result<Time> {
    Ok(match UtcTime::from_date_time(time) {
        Ok(time) => Time::UtcTime(time),
        Err(_) => Time::GeneralTime(GeneralizedTime::from_date_time(time)),
    })
}

fn later(time: DateTime, days: u32) -> der::Result<DateTime> {
    DateTime::from_unix_duration(time.unix_duration() + DAY * days)
}
