//! Verifies stored documents: splits each document into its signed bytes, its algorithm and its
//! signature, and lets the engine verify the signature. Messages name a document by the serial
//! number of its row, because its DER may be malformed.

use der::Decode;
use jeton_ca::issuer::ocsp_payload;
use jeton_pki::Signed;
use spki::AlgorithmIdentifierRef;

use super::database::Row;
use super::engine::Engine;
use super::parts::{InParts, in_parts};
use crate::{Error, Result};

/// A kind of stored document. A message names the serial number of a certificate, the CRL number of
/// a CRL, and the serial number of the certificate of an OCSP response.
#[derive(Clone, Copy)]
pub(super) enum Document {
    Certificate,
    Crl,
    OcspResponse,
}

/// Verifies all documents of a stage in parallel. Reports the failure with the lowest serial
/// number. `expected` is the algorithm of their signatures in DER.
pub(super) fn verify_all(
    engine: &dyn Engine,
    expected: &[u8],
    document: Document,
    rows: &[Row],
) -> Result<InParts<()>> {
    in_parts(rows, |row| verify_one(engine, expected, document, row))
}

/// Verifies one stored document. `expected` is the algorithm of its signature in DER.
fn verify_one(engine: &dyn Engine, expected: &[u8], document: Document, (serial, der): &Row) -> Result<()> {
    let name = match document {
        Document::Certificate => "certificate",
        Document::Crl => "CRL",
        Document::OcspResponse => "OCSP response",
    };
    let refused = |reason: String| Error::Failed(format!("{name} with serial {serial}: {reason}"));
    let der = match document {
        Document::Certificate | Document::Crl => der,
        Document::OcspResponse => &ocsp_payload(der).map_err(|error| refused(error.to_string()))?,
    };
    let signed = Signed::parse(der).map_err(|error| refused(error.to_string()))?;
    if signed.algorithm != expected {
        let reason = match AlgorithmIdentifierRef::from_der(signed.algorithm) {
            Ok(other) => format!("signed with algorithm {}", other.oid),
            Err(error) => format!("the signature's algorithm: {error}"),
        };
        return Err(refused(reason));
    }
    if engine.verify(signed.tbs, signed.signature)? {
        Ok(())
    } else {
        Err(refused("the signature does not verify".to_owned()))
    }
}
