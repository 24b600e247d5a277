//! Verifies stored documents: splits each document into its signed bytes, its algorithm and its
//! signature, and lets the engine verify the signature. Messages name a document by the serial
//! number of its row, because its DER may be malformed.

use std::path::Path;

use der::{Decode, Encode};
use jeton_pki::certificate::Signer;
use jeton_pki::{Signed, ocsp_payload};
use rayon::prelude::*;
use spki::AlgorithmIdentifierRef;
use x509_cert::Certificate;

use super::database::{Batch, Database, Row, Table};
use super::engine::Engine;
use super::parts::{InParts, in_parts};
use crate::Error;
use crate::algorithm::Algorithm;
use crate::error::Document;

/// The result of `jeton-driver verify-db` for a batch.
#[derive(Debug)]
pub struct Verdict {
    pub batch: Batch,
    /// The number of documents that verify.
    pub good: usize,
    /// The documents that do not verify, and errors of the whole batch.
    pub failures: Vec<Error>,
}

/// Verifies all documents of a database through `engine`, with the keys of the stored CA
/// certificates.
pub fn verify_database(path: &Path, engine: &mut dyn Engine) -> Result<Vec<Verdict>, Error> {
    let database = Database::open_existing(path)?;
    let batches = database.batches()?;
    batches.into_iter().map(|batch| verify_batch(&database, engine, batch)).collect()
}

fn verify_batch(database: &Database, engine: &mut dyn Engine, batch: Batch) -> Result<Verdict, Error> {
    let expected = match import_ca(engine, &batch) {
        Ok(expected) => expected,
        Err(error) => return Ok(Verdict { batch, good: 0, failures: vec![error] }),
    };
    let mut results = Vec::new();
    let tables = [
        (Table::Certificates, Document::Certificate),
        (Table::Crls, Document::Crl),
        (Table::OcspResponses, Document::OcspResponse),
    ];
    for (table, document) in tables {
        let rows = database.read(table, batch.id)?;
        let verify = |row: &Row| verify_one(&*engine, &expected, document, row);
        results.par_extend(rows.par_iter().map(verify));
    }
    engine.clear()?;
    let all = results.len();
    let failures: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    Ok(Verdict { batch, good: all - failures.len(), failures })
}

/// Imports the key of the CA. Returns the algorithm of its signatures in DER.
fn import_ca(engine: &mut dyn Engine, batch: &Batch) -> Result<Vec<u8>, Error> {
    let certificate = Certificate::from_der(&batch.ca_certificate)?;
    let key = &certificate.tbs_certificate.subject_public_key_info;
    let algorithm = Algorithm::of_public_key(key)
        .ok_or_else(|| Error::Failed(format!("the CA's key algorithm {} is unknown", key.algorithm.oid)))?;
    engine.import_ca(algorithm, key)?;
    Ok(Signer::of(&key.to_der()?)?.algorithm.to_der()?)
}

/// Verifies all documents of a stage in parallel. Reports the failure with the lowest serial
/// number. `expected` is the algorithm of their signatures in DER.
pub(super) fn verify_all(
    engine: &dyn Engine,
    expected: &[u8],
    document: Document,
    rows: &[Row],
) -> Result<InParts<()>, Error> {
    in_parts(rows, |row| verify_one(engine, expected, document, row))
}

/// Verifies one stored document. `expected` is the algorithm of its signature in DER.
fn verify_one(
    engine: &dyn Engine,
    expected: &[u8],
    document: Document,
    (serial, der): &Row,
) -> Result<(), Error> {
    let serial = *serial;
    let malformed = |reason: String| Error::Malformed { document, serial, reason };
    let der = match document {
        Document::Certificate | Document::Crl => der,
        Document::OcspResponse => &ocsp_payload(der).map_err(|error| malformed(error.to_string()))?,
    };
    let signed = Signed::parse(der).map_err(|error| malformed(error.to_string()))?;
    if signed.algorithm != expected {
        let reason = match AlgorithmIdentifierRef::from_der(signed.algorithm) {
            Ok(other) => format!("signed with algorithm {}", other.oid),
            Err(error) => format!("the signature's algorithm: {error}"),
        };
        return Err(malformed(reason));
    }
    if engine.verify(signed.tbs, signed.signature)? {
        Ok(())
    } else {
        Err(Error::BadSignature { document, serial })
    }
}
