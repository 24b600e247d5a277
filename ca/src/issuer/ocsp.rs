//! Answers OCSP requests (RFC 6960).

use std::ops::{Range, RangeInclusive};

use aws_lc_rs::digest::{self, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use const_oid::ObjectIdentifier;
use const_oid::db::rfc5280::ID_KP_OCSP_SIGNING;
use const_oid::db::rfc5912::{ID_SHA_1, ID_SHA_256, ID_SHA_384, ID_SHA_512};
use const_oid::db::rfc6960::{ID_PKIX_OCSP_BASIC, ID_PKIX_OCSP_NONCE};
use der::asn1::{BitString, Null, OctetString, OctetStringRef};
use der::{Any, Decode, Encode};
use jeton_client::Session;
use jeton_pki::signer::{Signer, assemble, is_signed, key_id};
use spki::AlgorithmIdentifierOwned;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{CrlReason, ExtendedKeyUsage};
use x509_cert::{Certificate, TbsCertificate};
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspRequest, OcspResponse, OcspResponseStatus, Request,
    ResponderId, ResponseBytes, ResponseData, RevokedInfo, SingleResponse, TbsRequest, Version,
};

use super::{DAY, Issuer, Revoked, at, now, serial_number};
use crate::Error;

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

/// The most certificates that a request may ask for.
const MOST_CERTIFICATES: usize = 16;
/// The lengths of a nonce in bytes. RFC 9654, 2.1.
const NONCE_LENGTHS: RangeInclusive<usize> = 1..=128;

/// A request of a client.
pub struct Query {
    certificates: Vec<CertId>,
    nonce: Option<Extension>,
}

impl Query {
    /// Reads a request in DER. Fails if it is malformed, or asks for too many certificates.
    pub fn parse(request: &[u8]) -> Result<Self, Error> {
        let request = OcspRequest::from_der(request)?.tbs_request;
        let is_nonce = |extension: &Extension| extension.extn_id == ID_PKIX_OCSP_NONCE;
        let extensions = request.request_extensions.unwrap_or_default();
        let mut each =
            request.request_list.iter().flat_map(|one| one.single_request_extensions.iter().flatten());
        // RFC 6960, 4.4: an unknown extension that is critical is not ignored.
        if each.any(|extension| extension.critical)
            || extensions.iter().any(|extension| extension.critical && !is_nonce(extension))
        {
            return Err(Error::Refused("a request with an unknown critical extension".to_owned()));
        }
        let nonce = extensions.into_iter().find(is_nonce);
        if let Some(nonce) = &nonce {
            let nonce = OctetStringRef::from_der(nonce.extn_value.as_bytes())?;
            if !NONCE_LENGTHS.contains(&nonce.as_bytes().len()) {
                return Err(Error::Refused("a nonce has 1 to 128 bytes".to_owned()));
            }
        }
        if !(1..=MOST_CERTIFICATES).contains(&request.request_list.len()) {
            return Err(Error::Refused(format!("a request has 1 to {MOST_CERTIFICATES} certificates")));
        }
        Ok(Self { certificates: request.request_list.into_iter().map(|one| one.req_cert).collect(), nonce })
    }

    /// Returns a request for the certificate that [`key`](Self::key) names.
    pub fn of_key(key: &[u8]) -> Result<Self, Error> {
        Ok(Self { certificates: vec![CertId::from_der(key)?], nonce: None })
    }

    /// Returns the certificate and its CA in DER. Returns `None` if the response is for one client
    /// only (it has a nonce), or for several certificates. RFC 5019, 2.1.1.
    pub fn key(&self) -> Result<Option<Vec<u8>>, Error> {
        match (&self.nonce, self.certificates.as_slice()) {
            (None, [one]) => Ok(Some(one.to_der()?)),
            _ => Ok(None),
        }
    }
}

/// A response as bytes to sign.
pub struct Unsigned {
    /// The bytes.
    pub tbs: Vec<u8>,
    /// The seconds since 1970 in which the response is valid.
    pub valid: Range<u64>,
}

/// A signer of OCSP responses: the CA itself, or a key with a certificate of the profile
/// `ocsp-signer`.
pub struct Responder {
    /// How the key signs.
    pub signer: Signer,
    /// The seconds since 1970 in which the certificates of the signer and of the CA are valid.
    pub valid: Range<u64>,
    key_hash: Vec<u8>,
    certificate: Option<Certificate>,
    /// The hashes of the CA's name and key, by the algorithms that a request may use.
    issuers: Vec<(ObjectIdentifier, Digest, Digest)>,
}

impl Responder {
    /// Makes the responder of a CA that signs itself.
    pub fn new(issuer: &Issuer) -> Result<Self, Error> {
        Self::of(issuer, None)
    }

    /// Makes the responder of a CA whose responses another key signs. Fails if this is not a
    /// certificate of the CA for OCSP responses. The module verifies its signature.
    pub fn delegated(issuer: &Issuer, certificate: &[u8], session: &Session) -> Result<Self, Error> {
        let own = &issuer.certificate.tbs_certificate;
        let der = certificate;
        let certificate = Certificate::from_der(der)?;
        let tbs = &certificate.tbs_certificate;
        let extended = tbs.get::<ExtendedKeyUsage>()?.map(|(_, usage)| usage.0).unwrap_or_default();
        if tbs.issuer != own.subject
            || !extended.contains(&ID_KP_OCSP_SIGNING)
            || !is_signed(session, der, &own.subject_public_key_info)?
        {
            return Err(Error::Refused(format!(
                "{} has no certificate of {} for OCSP responses",
                tbs.subject, own.subject
            )));
        }
        Self::of(issuer, Some(certificate))
    }

    fn of(issuer: &Issuer, certificate: Option<Certificate>) -> Result<Self, Error> {
        let own = &issuer.certificate.tbs_certificate;
        let signing = certificate.as_ref().map_or(own, |certificate| &certificate.tbs_certificate);
        let info = signing.subject_public_key_info.to_der()?;
        let start = |tbs: &TbsCertificate| tbs.validity.not_before.to_unix_duration().as_secs();
        // RFC 5280, 4.1.2.5: the last second belongs to the validity.
        let end = |tbs: &TbsCertificate| tbs.validity.not_after.to_unix_duration().as_secs() + 1;
        let valid = start(signing).max(start(own))..end(signing).min(end(own));
        let name = own.subject.to_der()?;
        let key = own.subject_public_key_info.subject_public_key.raw_bytes();
        let issuers = HASHES.iter().map(|(oid, hash)| (*oid, digest(hash, &name), digest(hash, key)));
        let issuers = issuers.collect();
        Ok(Self { signer: Signer::of(&info)?, valid, key_hash: key_id(&info)?, certificate, issuers })
    }

    /// Fails unless the certificates of the signer and of the CA are valid now.
    pub fn expect_valid(&self) -> Result<(), Error> {
        if self.valid.contains(&now()) {
            return Ok(());
        }
        let text = "the certificate of the OCSP signer or of its CA has expired, or is not valid yet";
        Err(Error::Refused(text.to_owned()))
    }

    /// Returns the response data for a request. It is valid for this number of days, but not longer
    /// than the signer. `status` gets the bytes of a serial number.
    pub fn response_tbs(
        &self,
        query: &Query,
        days: u32,
        mut status: impl FnMut(&[u8]) -> Result<Answer, Error>,
    ) -> Result<Unsigned, Error> {
        self.expect_valid()?;
        let time = |seconds| -> Result<_, Error> { Ok(at(seconds)?.into()) };
        let now = now();
        let end = (now + u64::from(days) * DAY).min(self.valid.end - 1);
        let mut responses = Vec::new();
        for one in &query.certificates {
            let answer = match self.is_issuer(one) {
                true => status(one.serial_number.as_bytes())?,
                false => Answer::Unknown,
            };
            let cert_status = match answer {
                Answer::Good => CertStatus::good(),
                Answer::Unknown => CertStatus::unknown(),
                Answer::Revoked(Revoked { time: at, reason, .. }) => CertStatus::revoked(RevokedInfo {
                    revocation_time: time(at)?,
                    revocation_reason: (reason != CrlReason::Unspecified).then_some(reason),
                }),
            };
            responses.push(SingleResponse {
                cert_id: one.clone(),
                cert_status,
                this_update: time(now)?,
                next_update: Some(time(end)?),
                single_extensions: None,
            });
        }
        let data = ResponseData {
            version: Version::V1,
            responder_id: ResponderId::ByKey(OctetString::new(self.key_hash.clone())?),
            produced_at: time(now)?,
            responses,
            response_extensions: query.nonce.clone().map(|nonce| vec![nonce]),
        };
        Ok(Unsigned { tbs: data.to_der()?, valid: now..end })
    }

    /// Joins the signed bytes of a response with the signature and the signer's certificate.
    pub fn assemble(&self, tbs: &[u8], signature: &[u8]) -> Result<Vec<u8>, Error> {
        let Some(certificate) = &self.certificate else {
            return Ok(successful(assemble(tbs, &self.signer, signature)?)?);
        };
        let basic = BasicOcspResponse {
            tbs_response_data: ResponseData::from_der(tbs)?,
            signature_algorithm: self.signer.algorithm.clone(),
            signature: BitString::from_bytes(signature)?,
            certs: Some(vec![certificate.clone()]),
        };
        Ok(successful(basic.to_der()?)?)
    }

    /// Returns whether a request means a certificate of this CA.
    fn is_issuer(&self, id: &CertId) -> bool {
        let own = self.issuers.iter().find(|(oid, ..)| *oid == id.hash_algorithm.oid);
        let plain = id.hash_algorithm.parameters.as_ref().is_none_or(|parameters| parameters.is_null());
        own.is_some_and(|(_, name, key)| {
            plain
                && id.issuer_name_hash.as_bytes() == name.as_ref()
                && id.issuer_key_hash.as_bytes() == key.as_ref()
        })
    }
}

/// The hashes of the CA in a request. They only identify it.
const HASHES: [(ObjectIdentifier, &digest::Algorithm); 4] = [
    (ID_SHA_1, &SHA1_FOR_LEGACY_USE_ONLY),
    (ID_SHA_256, &SHA256),
    (ID_SHA_384, &SHA384),
    (ID_SHA_512, &SHA512),
];

/// Returns the request of a client for a serial number of this CA. RFC 5019, 2.1.1: its hashes are
/// SHA-1. They only identify the CA.
pub fn request(issuer: &Issuer, serial: &[u8]) -> Result<Vec<u8>, Error> {
    let own = &issuer.certificate.tbs_certificate;
    let hash = |bytes: &[u8]| OctetString::new(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    let req_cert = CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: ID_SHA_1, parameters: Some(Any::from(Null)) },
        issuer_name_hash: hash(&own.subject.to_der()?)?,
        issuer_key_hash: hash(own.subject_public_key_info.subject_public_key.raw_bytes())?,
        serial_number: serial_number(serial)?,
    };
    let request_list = vec![Request { req_cert, single_request_extensions: None }];
    let tbs_request =
        TbsRequest { version: Version::V1, requestor_name: None, request_list, request_extensions: None };
    Ok(OcspRequest { tbs_request, optional_signature: None }.to_der()?)
}

/// Returns the response to a request that [`Query::parse`] refuses.
pub fn malformed_request() -> Result<Vec<u8>, Error> {
    Ok(OcspResponse::malformed_request().to_der()?)
}

/// Returns the response of a responder that cannot sign.
pub fn internal_error() -> Result<Vec<u8>, Error> {
    Ok(OcspResponse::internal_error().to_der()?)
}

/// Encodes an OCSPResponse around a basic response.
fn successful(basic: Vec<u8>) -> der::Result<Vec<u8>> {
    let bytes = ResponseBytes { response_type: ID_PKIX_OCSP_BASIC, response: OctetString::new(basic)? };
    OcspResponse { response_status: OcspResponseStatus::Successful, response_bytes: Some(bytes) }.to_der()
}

/// Returns the basic response of a successful OCSPResponse.
pub fn payload(der: &[u8]) -> Result<Vec<u8>, Error> {
    match OcspResponse::from_der(der)? {
        OcspResponse { response_status: OcspResponseStatus::Successful, response_bytes: Some(bytes) }
            if bytes.response_type == ID_PKIX_OCSP_BASIC =>
        {
            Ok(bytes.response.into_bytes())
        }
        _ => Err(Error::Failed("not a successful basic OCSP response".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use x509_cert::serial_number::SerialNumber;

    use super::*;

    #[test]
    fn a_request_with_an_unknown_critical_extension_is_refused() {
        let (hash, serial) =
            (OctetString::new([0; 20]).expect("short"), SerialNumber::new(&[1]).expect("short"));
        let hash_algorithm = AlgorithmIdentifierOwned { oid: ID_SHA_1, parameters: None };
        let (issuer_name_hash, issuer_key_hash) = (hash.clone(), hash.clone());
        let req_cert = CertId { hash_algorithm, issuer_name_hash, issuer_key_hash, serial_number: serial };
        for (critical, of_one) in [(false, false), (false, true), (true, false), (true, true)] {
            let all = vec![Extension { extn_id: ID_SHA_256, critical, extn_value: hash.clone() }];
            let (one, request_extensions) = if of_one { (Some(all), None) } else { (None, Some(all)) };
            let one = Request { req_cert: req_cert.clone(), single_request_extensions: one };
            let (version, request_list) = (Version::V1, vec![one]);
            let tbs_request = TbsRequest { version, requestor_name: None, request_list, request_extensions };
            let request = OcspRequest { tbs_request, optional_signature: None }.to_der().expect("DER");
            assert_eq!(Query::parse(&request).is_err(), critical, "{of_one}");
        }
    }

    #[test]
    fn the_payload_of_a_response_is_the_octets_that_were_encoded() {
        let basic = b"\x30\x02\x05\x00";
        let response = successful(basic.to_vec()).expect("DER");
        assert_eq!(payload(&response).expect("a response"), basic);
        for offset in 0..response.len() - basic.len() {
            let mut other = response.clone();
            other[offset] ^= 1;
            assert!(payload(&other).is_err(), "{offset}");
        }
        assert!(payload(b"\x30\x03\x0a\x01\x01").is_err());
    }
}
