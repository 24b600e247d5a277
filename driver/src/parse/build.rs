//! Builds CRLs and OCSP responses as bytes to sign, with the pipeline's library and with synta.

use std::hint::black_box;

use der::{Decode, Encode};
use jeton_pki::{Algorithm, Authority};
use synta_certificate::{CertificateListBuilder, OCSPResponseBuilder, SingleResponseSpec};
use x509_cert::crl::TbsCertList;
use x509_ocsp::{ResponderId, ResponseData};

use crate::Error;
use crate::pipeline::{Engine, InProcess};

/// The number of certificates that a CRL revokes.
pub(super) const REVOKED: u64 = 1024;

/// A CA, and the fields of the documents that both libraries build.
pub(super) struct Builders {
    authority: Authority,
    /// The fields of a CRL, in the form of synta.
    crl: Crl,
    /// The fields of a response.
    ocsp: Ocsp,
}

struct Crl {
    issuer: Vec<u8>,
    this_update: String,
    next_update: String,
    algorithm: Vec<u8>,
    /// OID, criticality and value.
    extensions: Vec<(Vec<u32>, bool, Vec<u8>)>,
}

struct Ocsp {
    hash: Vec<u8>,
    name_hash: Vec<u8>,
    key_hash: Vec<u8>,
    produced_at: String,
    next_update: String,
}

impl Builders {
    /// Makes a CA, and takes the fields from documents that the pipeline builds.
    pub(super) fn new() -> Result<Self, Error> {
        let algorithm = Algorithm::named("ecdsa-p256")?;
        let authority = Authority::new(algorithm, InProcess::default().make_ca(algorithm)?)?;
        let crl = TbsCertList::from_der(&authority.crl_tbs(1, 1)?)?;
        let time = |time: der::DateTime| {
            let (year, month, day) = (time.year(), time.month(), time.day());
            format!(
                "{year:04}{month:02}{day:02}{:02}{:02}{:02}Z",
                time.hour(),
                time.minutes(),
                time.seconds()
            )
        };
        let extensions = crl
            .crl_extensions
            .iter()
            .flatten()
            .map(|one| (one.extn_id.arcs().collect(), one.critical, one.extn_value.as_bytes().to_vec()));
        let crl = Crl {
            issuer: crl.issuer.to_der()?,
            this_update: time(crl.this_update.to_date_time()),
            next_update: crl.next_update.map(|one| time(one.to_date_time())).unwrap_or_default(),
            algorithm: crl.signature.to_der()?,
            extensions: extensions.collect(),
        };
        let data = ResponseData::from_der(&authority.ocsp_tbs(1)?)?;
        let (ResponderId::ByKey(key_hash), [response]) = (&data.responder_id, data.responses.as_slice())
        else {
            return Err(Error::Failed("the pipeline's OCSP response has another form".to_owned()));
        };
        let ocsp = Ocsp {
            hash: response.cert_id.hash_algorithm.to_der()?,
            name_hash: response.cert_id.issuer_name_hash.as_bytes().to_vec(),
            key_hash: key_hash.as_bytes().to_vec(),
            produced_at: time(data.produced_at.0.to_date_time()),
            next_update: response.next_update.map(|one| time(one.0.to_date_time())).unwrap_or_default(),
        };
        Ok(Self { authority, crl, ocsp })
    }

    /// Builds a CRL with the pipeline's library.
    pub(super) fn own_crl(&self) -> Result<Vec<u8>, Error> {
        Ok(black_box(self.authority.crl_tbs(1, REVOKED)?))
    }

    /// Builds the same CRL with synta.
    pub(super) fn synta_crl(&self) -> Result<Vec<u8>, Error> {
        let crl = &self.crl;
        let mut builder = CertificateListBuilder::new()
            .issuer(&crl.issuer)
            .this_update(&crl.this_update)
            .next_update(&crl.next_update)
            .signature_algorithm(&crl.algorithm);
        for serial in 1..=REVOKED {
            let bytes = serial.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            builder = builder.revoke(&bytes[zeros..], &crl.this_update, None);
        }
        for (oid, critical, value) in &crl.extensions {
            builder = builder.add_crl_extension(oid, *critical, value);
        }
        Ok(black_box(builder.build().map_err(Error::Failed)?))
    }

    /// Builds an OCSP response with the pipeline's library.
    pub(super) fn own_ocsp(&self) -> Result<Vec<u8>, Error> {
        Ok(black_box(self.authority.ocsp_tbs(1)?))
    }

    /// Builds an OCSP response with synta. synta's builder cannot set a time of revocation, so the
    /// response has the status `good`. It is shorter than that of the pipeline's library.
    pub(super) fn synta_ocsp(&self) -> Result<Vec<u8>, Error> {
        let ocsp = &self.ocsp;
        let builder =
            OCSPResponseBuilder::new().responder_key_hash(&ocsp.key_hash).produced_at(&ocsp.produced_at);
        let builder = builder.add_response(SingleResponseSpec {
            hash_algorithm_der: &ocsp.hash,
            issuer_name_hash: &ocsp.name_hash,
            issuer_key_hash: &ocsp.key_hash,
            serial: &[1],
            status: 0,
            this_update: &ocsp.produced_at,
            next_update: Some(&ocsp.next_update),
        });
        Ok(black_box(builder.build_tbs().map_err(Error::Failed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_build_the_same_crl() {
        let builders = Builders::new().expect("AWS-LC has P-256");
        assert_eq!(builders.own_crl().expect("a CRL"), builders.synta_crl().expect("a CRL"));
    }

    #[test]
    fn both_libraries_build_a_response_for_the_same_certificate() {
        let builders = Builders::new().expect("AWS-LC has P-256");
        let read = |der: Vec<u8>| ResponseData::from_der(&der).expect("a response");
        let (own, other) =
            (read(builders.own_ocsp().expect("DER")), read(builders.synta_ocsp().expect("DER")));
        assert_eq!(own.responses[0].cert_id, other.responses[0].cert_id);
        assert_eq!((own.responder_id, own.produced_at), (other.responder_id, other.produced_at));
    }
}
