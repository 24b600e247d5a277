//! The certificates that `parse` reads: those of the document, or some that are like them.

use std::time::Duration;

use jeton::backend::{MlDsa, PublicParts};
use x509_cert::der::Encode;
use x509_cert::der::asn1::BitString;
use x509_cert::ext::AsExtension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, ObjectIdentifier, SubjectPublicKeyInfoOwned};
use x509_cert::time::Validity;
use x509_cert::{Certificate, TbsCertificate, Version};

use crate::AnyError;
use crate::baseline::{self, BaselinePair};
use crate::scheme::{Kind, Scheme};

pub(super) struct Set {
    pub(super) name: &'static str,
    /// In DER.
    pub(super) certificates: Vec<Vec<u8>>,
}

/// The five certificates of the document, from the Public Key Interoperability Test Suite of NIST.
const PKITS: &[u8] = include_bytes!("pkits.pem");

/// The number of CAs at each depth of the document's hierarchy. Its table has 6,627 at depth 1, of
/// which its measurements leave out nine.
pub(super) const LEVELS: &[usize] = &[919, 6618, 2212, 137, 3];

/// Returns all sets. The hierarchy has this number of CAs at each depth.
pub(super) fn all(levels: &[usize]) -> Result<Vec<Set>, AnyError> {
    let pkits = Certificate::load_pem_chain(PKITS)?;
    let pkits = pkits.iter().map(Encode::to_der).collect::<Result<_, _>>()?;
    let mut sets = vec![Set { name: "PKITS", certificates: pkits }];
    for (name, set) in
        [("ML-DSA-44", MlDsa::MlDsa44), ("ML-DSA-65", MlDsa::MlDsa65), ("ML-DSA-87", MlDsa::MlDsa87)]
    {
        let authority = Authority::new("CN=Synthetic CA", set)?;
        sets.push(Set { name, certificates: vec![authority.certify(&authority, 1)?] });
    }
    let mozilla = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|root| root.to_vec()).collect();
    sets.push(Set { name: "Mozilla's roots", certificates: mozilla });
    sets.push(Set { name: "ML-DSA hierarchy", certificates: hierarchy(levels)? });
    Ok(sets)
}

/// Makes the certificates of a hierarchy of CAs, the roots first. As in the document, every other
/// key is of ML-DSA-87.
fn hierarchy(levels: &[usize]) -> Result<Vec<Vec<u8>>, AnyError> {
    let (mut certificates, mut above) = (Vec::new(), Vec::<Authority>::new());
    for (depth, count) in levels.iter().enumerate() {
        let mut level = Vec::with_capacity(*count);
        for index in 0..*count {
            let set = if index % 2 == 0 { MlDsa::MlDsa65 } else { MlDsa::MlDsa87 };
            let own = Authority::new(&format!("CN=Synthetic CA {depth} {index},O=Hierarchy,C=CH"), set)?;
            let issuer = if above.is_empty() { &own } else { &above[index % above.len()] };
            certificates.push(issuer.certify(&own, certificates.len() as u64 + 1)?);
            level.push(own);
        }
        above = level;
    }
    Ok(certificates)
}

struct Authority {
    name: Name,
    pair: Box<dyn BaselinePair>,
    algorithm: AlgorithmIdentifierOwned,
}

impl Authority {
    fn new(name: &str, set: MlDsa) -> Result<Self, AnyError> {
        let oid = match set {
            MlDsa::MlDsa44 => "2.16.840.1.101.3.4.3.17",
            MlDsa::MlDsa65 => "2.16.840.1.101.3.4.3.18",
            MlDsa::MlDsa87 => "2.16.840.1.101.3.4.3.19",
        };
        let algorithm = AlgorithmIdentifierOwned { oid: ObjectIdentifier::new_unwrap(oid), parameters: None };
        let pair = baseline::generate(Kind::MlDsa(set)).ok_or("ML-DSA does not sign")?;
        Ok(Self { name: name.parse()?, pair, algorithm })
    }

    /// Makes the certificate of a CA.
    fn certify(&self, subject: &Self, serial: u64) -> Result<Vec<u8>, AnyError> {
        let PublicParts::MlDsa { key, .. } = subject.pair.public() else {
            return Err("the key is not of ML-DSA".into());
        };
        let extensions = [
            BasicConstraints { ca: true, path_len_constraint: None }.to_extension(&subject.name, &[])?,
            KeyUsage(KeyUsages::KeyCertSign | KeyUsages::CRLSign).to_extension(&subject.name, &[])?,
        ];
        let tbs = TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::from(serial),
            signature: self.algorithm.clone(),
            issuer: self.name.clone(),
            validity: Validity::from_now(Duration::from_secs(365 * 24 * 60 * 60))?,
            subject: subject.name.clone(),
            subject_public_key_info: SubjectPublicKeyInfoOwned {
                algorithm: subject.algorithm.clone(),
                subject_public_key: BitString::from_bytes(&key)?,
            },
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(extensions.to_vec()),
        };
        let signature = self.pair.signature(Scheme::MlDsa, &tbs.to_der()?);
        let certificate = Certificate {
            tbs_certificate: tbs,
            signature_algorithm: self.algorithm.clone(),
            signature: BitString::from_bytes(&signature)?,
        };
        Ok(certificate.to_der()?)
    }
}

#[cfg(test)]
mod tests {
    use jeton::backend::Provider;
    use x509_cert::der::Decode;

    use super::*;

    #[test]
    fn the_hierarchy_has_as_many_certificates_as_that_of_the_document() {
        assert_eq!(LEVELS.iter().sum::<usize>(), 9889);
    }

    #[test]
    fn each_ca_of_a_hierarchy_is_certified_by_one_of_the_level_above() {
        let all = hierarchy(&[2, 5, 3]).expect("a hierarchy");
        let all: Vec<_> = all.iter().map(|one| Certificate::from_der(one).expect("a certificate")).collect();
        for (at, one) in all.iter().enumerate() {
            let tbs = &one.tbs_certificate;
            let issuers = match at {
                0..2 => &all[at..=at],
                2..7 => &all[..2],
                _ => &all[2..7],
            };
            let is_issuer = |other: &&Certificate| other.tbs_certificate.subject == tbs.issuer;
            let issuer = issuers.iter().find(is_issuer).expect("an issuer of the level above");
            let info = &issuer.tbs_certificate.subject_public_key_info;
            let set = match one.signature_algorithm.oid.to_string().as_str() {
                "2.16.840.1.101.3.4.3.18" => MlDsa::MlDsa65,
                _ => MlDsa::MlDsa87,
            };
            assert_eq!(info.algorithm, one.signature_algorithm);
            let key = info.subject_public_key.raw_bytes().to_vec();
            let key = Provider::ALL[0].keys.public(&PublicParts::MlDsa { set, key }).expect("a key");
            let mut verifier = key.verifier(&Scheme::MlDsa.of_backend()).expect("a verifier");
            let verified = verifier.verify(&tbs.to_der().expect("DER"), one.signature.raw_bytes());
            verified.expect("a signature of the issuer");
        }
    }
}
