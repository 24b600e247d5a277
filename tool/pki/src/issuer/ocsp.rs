//! Answers OCSP requests (RFC 6960).

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use const_oid::db::rfc5912::ID_SHA_1;
use der::asn1::{BitString, Null, OctetString};
use der::{Any, Decode, Encode};
use spki::AlgorithmIdentifierOwned;
use x509_cert::Certificate;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{CrlReason, ExtendedKeyUsage};
use x509_cert::serial_number::SerialNumber;
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspRequest, OcspResponse, Request, ResponderId, ResponseData,
    RevokedInfo, SingleResponse, TbsRequest, Version,
};

use super::{DAY, ID_KP_OCSP_SIGNING, ID_PKIX_OCSP_NONCE, Issuer, Revoked, at, now};
use crate::certificate::{Signer, assemble, key_id};
use crate::{Error, ocsp_response};

/// What the CA knows about a serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The CA issued the certificate and did not revoke it.
    Good,
    /// The CA revoked the certificate.
    Revoked(Revoked),
    /// The CA did not issue the certificate.
    Unknown,
}

/// A signer of OCSP responses: the CA itself, or a key with a certificate of the profile
/// `ocsp-signer`.
pub struct Responder<'a> {
    /// How the key signs.
    pub signer: Signer,
    issuer: &'a Issuer,
    key_hash: Vec<u8>,
    certificate: Option<Certificate>,
}

impl<'a> Responder<'a> {
    /// Makes the responder of a CA. `certificate` is that of the signing key, unless the CA itself
    /// signs. Fails if it is not a certificate for OCSP responses of this CA.
    pub fn new(issuer: &'a Issuer, certificate: Option<&[u8]>) -> Result<Self, Error> {
        let certificate = certificate.map(Certificate::from_der).transpose()?;
        let own = &issuer.certificate.tbs_certificate;
        if let Some(certificate) = &certificate {
            let tbs = &certificate.tbs_certificate;
            let extended = tbs.get::<ExtendedKeyUsage>()?.map(|(_, usage)| usage.0).unwrap_or_default();
            if tbs.issuer != own.subject || !extended.contains(&ID_KP_OCSP_SIGNING) {
                return Err(Error::Refused(format!(
                    "{} has no certificate of {} for OCSP responses",
                    tbs.subject, own.subject
                )));
            }
        }
        let signing = certificate.as_ref().map_or(own, |certificate| &certificate.tbs_certificate);
        let info = signing.subject_public_key_info.to_der()?;
        Ok(Self { signer: Signer::of(&info)?, key_hash: key_id(&info)?, issuer, certificate })
    }

    /// Returns the response data for a request, as bytes to sign. It is valid for this number of
    /// days. `status` gets the bytes of a serial number.
    pub fn response_tbs(
        &self,
        request: &[u8],
        days: u32,
        mut status: impl FnMut(&[u8]) -> Result<Answer, Error>,
    ) -> Result<Vec<u8>, Error> {
        let request = OcspRequest::from_der(request)?.tbs_request;
        let time = |seconds| -> Result<_, Error> { Ok(at(seconds)?.into()) };
        let now = now();
        let mut responses = Vec::new();
        for one in request.request_list {
            let serial = one.req_cert.serial_number.as_bytes().to_vec();
            let answer = if self.is_issuer(&one.req_cert)? { status(&serial)? } else { Answer::Unknown };
            let cert_status = match answer {
                Answer::Good => CertStatus::good(),
                Answer::Unknown => CertStatus::unknown(),
                Answer::Revoked(Revoked { time: at, reason, .. }) => CertStatus::revoked(RevokedInfo {
                    revocation_time: time(at)?,
                    revocation_reason: (reason != CrlReason::Unspecified).then_some(reason),
                }),
            };
            responses.push(SingleResponse {
                cert_id: one.req_cert,
                cert_status,
                this_update: time(now)?,
                next_update: Some(time(now + u64::from(days) * DAY)?),
                single_extensions: None,
            });
        }
        let nonce = |extension: &Extension| extension.extn_id == ID_PKIX_OCSP_NONCE;
        let nonce = request.request_extensions.unwrap_or_default().into_iter().find(nonce);
        let data = ResponseData {
            version: Version::V1,
            responder_id: ResponderId::ByKey(OctetString::new(self.key_hash.clone())?),
            produced_at: time(now)?,
            responses,
            response_extensions: nonce.map(|nonce| vec![nonce]),
        };
        Ok(data.to_der()?)
    }

    /// Joins the signed bytes of a response with the signature and the signer's certificate.
    pub fn assemble(&self, tbs: &[u8], signature: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(certificate) = &self.certificate else {
            return Ok(ocsp_response(assemble(tbs, &self.signer, signature)?)?);
        };
        let basic = BasicOcspResponse {
            tbs_response_data: ResponseData::from_der(tbs)?,
            signature_algorithm: self.signer.algorithm.clone(),
            signature: BitString::from_bytes(signature)?,
            certs: Some(vec![certificate.clone()]),
        };
        Ok(ocsp_response(basic.to_der()?)?)
    }

    /// Returns whether a request means certificates of this CA.
    fn is_issuer(&self, id: &CertId) -> Result<bool, Error> {
        let own = &self.issuer.certificate.tbs_certificate;
        let Some(algorithm) = hash(&id.hash_algorithm.oid.to_string()) else { return Ok(false) };
        let name = digest(algorithm, &own.subject.to_der()?);
        let key = digest(algorithm, own.subject_public_key_info.subject_public_key.raw_bytes());
        Ok(id.issuer_name_hash.as_bytes() == name.as_ref() && id.issuer_key_hash.as_bytes() == key.as_ref())
    }
}

fn hash(oid: &str) -> Option<&'static digest::Algorithm> {
    Some(match oid {
        "1.3.14.3.2.26" => &SHA1_FOR_LEGACY_USE_ONLY,
        "2.16.840.1.101.3.4.2.1" => &SHA256,
        "2.16.840.1.101.3.4.2.2" => &SHA384,
        "2.16.840.1.101.3.4.2.3" => &SHA512,
        _ => return None,
    })
}

/// Returns the request of a client for a serial number of this CA. RFC 5019, 2.1.1: its hashes are
/// SHA-1. They only identify the CA.
pub fn request(issuer: &Issuer, serial: &[u8]) -> Result<Vec<u8>, Error> {
    let own = &issuer.certificate.tbs_certificate;
    let hash = |bytes: &[u8]| OctetString::new(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    let req_cert = CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: ID_SHA_1, parameters: Some(Any::from(Null)) },
        issuer_name_hash: hash(&own.subject.to_der()?)?,
        issuer_key_hash: hash(own.subject_public_key_info.subject_public_key.raw_bytes())?,
        serial_number: SerialNumber::new(serial)?,
    };
    let request_list = vec![Request { req_cert, single_request_extensions: None }];
    let tbs_request =
        TbsRequest { version: Version::V1, requestor_name: None, request_list, request_extensions: None };
    Ok(OcspRequest { tbs_request, optional_signature: None }.to_der()?)
}

/// Returns the response to a request that is not one.
pub fn malformed_request() -> Result<Vec<u8>, Error> {
    Ok(OcspResponse::malformed_request().to_der()?)
}
