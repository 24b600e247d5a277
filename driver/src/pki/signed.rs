//! The common structure of certificates, CRLs and basic OCSP responses: signed bytes, algorithm,
//! signature.

use der::asn1::{AnyRef, BitStringRef, OctetString};
use der::referenced::OwnedToRef;
use der::{Decode, Encode, Reader, Sequence, SliceReader, Tagged};
use spki::{AlgorithmIdentifierOwned, AlgorithmIdentifierRef};
use x509_ocsp::{OcspResponse, OcspResponseStatus, ResponseBytes};

use const_oid::db::rfc6960::ID_PKIX_OCSP_BASIC;

/// The parts of a signed structure.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The bytes that were signed, with their tag and length.
    pub tbs: &'a [u8],
    /// The signature's algorithm.
    pub algorithm: AlgorithmIdentifierRef<'a>,
    /// The signature in its X.509 form.
    pub signature: &'a [u8],
}

#[derive(Sequence)]
struct Encoded<'a> {
    tbs: AnyRef<'a>,
    algorithm: AlgorithmIdentifierRef<'a>,
    signature: BitStringRef<'a>,
}

impl<'a> Signed<'a> {
    /// Splits DER into the parts, without decoding the signed bytes.
    pub fn parse(der: &'a [u8]) -> der::Result<Self> {
        let mut outer = SliceReader::new(der)?;
        let body = AnyRef::decode(&mut outer)?;
        outer.finish(())?;
        body.tag().assert_eq(der::Tag::Sequence)?;
        let mut reader = SliceReader::new(body.value())?;
        let tbs = reader.tlv_bytes()?;
        let algorithm = AlgorithmIdentifierRef::decode(&mut reader)?;
        let signature = BitStringRef::decode(&mut reader)?;
        let signature = signature.as_bytes().ok_or_else(|| der::Tag::BitString.value_error())?;
        // A basic OCSP response may have certificates after the signature. Those of the pipeline do
        // not.
        reader.finish(())?;
        Ok(Self { tbs, algorithm, signature })
    }

    /// Encodes the parts.
    pub fn assemble(
        tbs: &[u8],
        algorithm: &AlgorithmIdentifierOwned,
        signature: &[u8],
    ) -> der::Result<Vec<u8>> {
        let signature = BitStringRef::from_bytes(signature)?;
        Encoded { tbs: AnyRef::from_der(tbs)?, algorithm: algorithm.owned_to_ref(), signature }.to_der()
    }
}

/// Encodes an OCSPResponse around a basic response.
pub fn ocsp_response(basic: Vec<u8>) -> der::Result<Vec<u8>> {
    let bytes = ResponseBytes { response_type: ID_PKIX_OCSP_BASIC, response: OctetString::new(basic)? };
    OcspResponse { response_status: OcspResponseStatus::Successful, response_bytes: Some(bytes) }.to_der()
}

/// Returns the basic response of a successful OCSPResponse.
pub fn ocsp_payload(der: &[u8]) -> der::Result<OctetString> {
    let response = OcspResponse::from_der(der)?;
    match response.response_bytes {
        Some(bytes)
            if response.response_status == OcspResponseStatus::Successful
                && bytes.response_type == ID_PKIX_OCSP_BASIC =>
        {
            Ok(bytes.response)
        }
        _ => Err(der::Tag::Enumerated.value_error()),
    }
}
