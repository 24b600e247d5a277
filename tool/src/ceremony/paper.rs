//! Files of a ceremony: their hashes, and the certificates and CRLs in them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use der::asn1::AnyRef;
use der::pem::LineEnding;
use der::{Decode, Encode};
use jeton_client::safe_text::hex;
use jeton_pki::Signed;
use jeton_pki::software::Algorithms;
use serde::{Deserialize, Serialize};
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;

use crate::{Cause, Error, backup, formats, shares, token_file};

/// The labels of the structures that a record has a copy of.
const CERTIFICATE: &str = "CERTIFICATE";
const CRL: &str = "X509 CRL";
/// The longest file in bytes whose certificates and CRLs are copied.
const LONGEST: u64 = 16 << 20;

/// A file in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub path: String,
    pub sha256: String,
    /// The certificates and CRLs of the file, in PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pem: String,
}

/// Describes a file. Refuses one with a share or a private key, because a hash lets a reader guess
/// its content.
pub fn document(path: &Path) -> Result<Document, Error> {
    let sha256 = hash_file(path)?;
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)).map_err(Error::io(path))?;
    let text = String::from_utf8_lossy(&bytes);
    let has_key = text.contains("PRIVATE KEY-----");
    if has_key || shares::read(path).is_ok() || backup::read_identity(path).is_ok() {
        return Err(Cause::Refused.error(format!("{}: a secret has no place in a record", path.display())));
    }
    // A file of another form has none. A signature beside a block that is unknown is not left out.
    let is_checked =
        [CERTIFICATE, CRL].iter().any(|label| text.contains(&format!("-----BEGIN {label}-----")));
    let all = match formats::contents(&bytes, &[CERTIFICATE, CRL]) {
        Err(error) if is_checked => return Err(Cause::Damaged.error(format!("{}: {error}", path.display()))),
        all => all.unwrap_or_default(),
    };
    let encode = |der: &Vec<u8>| {
        let label = if Certificate::from_der(der).is_ok() { CERTIFICATE } else { CRL };
        let is_known = label == CERTIFICATE || CertificateList::from_der(der).is_ok();
        is_known.then(|| der::pem::encode_string(label, LineEnding::LF, der).ok()).flatten()
    };
    let pem = all.iter().filter_map(encode).collect();
    Ok(Document { path: path.display().to_string(), sha256, pem })
}

/// Returns the SHA-256 hash of a file in hexadecimal digits.
pub fn hash_file(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let (mut context, mut part) = (Context::new(&SHA256), [0; 64 << 10]);
    loop {
        match file.read(&mut part).map_err(Error::io(path))? {
            0 => return Ok(hex(context.finish().as_ref())),
            len => context.update(&part[..len]),
        }
    }
}

/// What a record says of a certificate or a CRL.
pub struct Paper {
    pub text: String,
    /// Whether a signature is wrong, or the structure is malformed.
    pub is_wrong: bool,
}

/// A certificate or a CRL with its parts in DER.
struct Structure {
    name: String,
    subject: Option<(Vec<u8>, Vec<u8>)>,
    issuer: Vec<u8>,
    der: Vec<u8>,
}

/// Checks the signature of each certificate and CRL with the certificate of its issuer, if one of
/// the files has it.
pub fn check<'a>(files: impl Iterator<Item = &'a Document>) -> Vec<Paper> {
    let wrong = |text: String| Paper { text, is_wrong: true };
    let (mut papers, mut all) = (Vec::new(), Vec::new());
    for file in files.filter(|file| !file.pem.is_empty()) {
        let parsed = formats::contents(file.pem.as_bytes(), &[CERTIFICATE, CRL]).ok();
        let parsed =
            parsed.and_then(|all| all.into_iter().map(|der| parse(der).ok()).collect::<Option<Vec<_>>>());
        match parsed {
            Some(some) => {
                for one in some {
                    if all.iter().all(|known: &Structure| known.der != one.der) {
                        all.push(one);
                    }
                }
            }
            None => papers.push(wrong(format!("{}: a certificate or a CRL is malformed", file.path))),
        }
    }
    for one in &all {
        let issuers = all.iter().filter_map(|other| Some((other, other.subject.as_ref()?)));
        let issuers = issuers.filter(|(_, (subject, _))| *subject == one.issuer);
        let results: Vec<_> = issuers.map(|(other, (_, info))| (other, verify(one, info))).collect();
        let found = |wanted| results.iter().find(|(_, result)| *result == wanted);
        papers.push(if let Some((issuer, _)) = found(Some(true)) {
            let by = if std::ptr::eq(*issuer, one) { "itself" } else { issuer.name.as_str() };
            Paper { text: format!("{}: signed by {by}", one.name), is_wrong: false }
        } else if results.is_empty() {
            Paper { text: format!("{}: its issuer is not in the record", one.name), is_wrong: false }
        } else if found(None).is_some() {
            let text = format!("{}: this tool does not know the algorithm of its signature", one.name);
            Paper { text, is_wrong: false }
        } else {
            wrong(format!("{}: its signature is wrong", one.name))
        });
    }
    papers
}

fn verify(one: &Structure, info: &[u8]) -> Option<bool> {
    let result = Signed::parse(&one.der).and_then(|signed| {
        let algorithm = AnyRef::from_der(signed.algorithm)?;
        let algorithms = Algorithms::new(token_file::is_signed);
        algorithms.is_signed(info, algorithm.value(), signed.tbs, signed.signature)
    });
    result.unwrap_or(Some(false))
}

fn parse(der: Vec<u8>) -> Result<Structure, der::Error> {
    if let Ok(certificate) = Certificate::from_der(&der) {
        let tbs = certificate.tbs_certificate;
        let subject = (tbs.subject.to_der()?, tbs.subject_public_key_info.to_der()?);
        let name = format!("certificate {} of {}", tbs.serial_number, tbs.subject);
        return Ok(Structure { name, subject: Some(subject), issuer: tbs.issuer.to_der()?, der });
    }
    let list = CertificateList::from_der(&der)?.tbs_cert_list;
    let name = format!("CRL of {} of {}", list.issuer, list.this_update);
    Ok(Structure { name, subject: None, issuer: list.issuer.to_der()?, der })
}
