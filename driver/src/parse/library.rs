//! The libraries that read certificates, and their operations that `jeton-driver parse` measures.

use std::hint::black_box;

use der::{Decode, Encode};
use synta::Encoding;
use x509_parser::prelude::FromDer;

use jeton_pki::Signed;

/// A library that reads certificates.
pub(super) struct Library {
    /// The name of its package.
    pub(super) name: &'static str,
    /// Parses a certificate. Returns whether it succeeds.
    pub(super) parse: fn(&[u8]) -> bool,
    /// Parses a certificate and reads version, serial number, both algorithms, issuer and subject
    /// as text, the validity, the public key and the signature. Returns the length of all texts and
    /// byte strings, or 0 if it fails.
    pub(super) fields: fn(&[u8]) -> usize,
    /// Returns the length of the parts that a verification needs (the signed bytes and the
    /// signature), or 0 if it fails. `None` if the library does not return them.
    pub(super) parts: Option<fn(&[u8]) -> usize>,
}

/// The library with which the pipeline builds certificates and CRLs. It is the baseline of the
/// ratios.
pub(super) const OURS: &str = "x509-cert";

/// All libraries. The first one is the baseline.
pub(super) const LIBRARIES: &[Library] = &[
    Library {
        name: OURS,
        parse: |der| x509_cert(der).is_some(),
        fields: |der| x509_cert_fields(der).unwrap_or(0),
        parts: Some(|der| x509_cert_parts(der).unwrap_or(0)),
    },
    Library {
        name: "x509-parser",
        parse: |der| x509_parser(der).is_some(),
        fields: |der| x509_parser_fields(der).unwrap_or(0),
        parts: Some(|der| x509_parser_parts(der).unwrap_or(0)),
    },
    Library {
        name: "synta-certificate",
        parse: |der| synta_certificate(der).is_some(),
        fields: |der| synta_fields(der).unwrap_or(0),
        parts: Some(|der| synta_parts(der).unwrap_or(0)),
    },
    #[cfg(feature = "openssl")]
    Library {
        name: crate::selection::OPENSSL,
        parse: |der| openssl::parse(der).is_some(),
        fields: |der| openssl::fields(der).unwrap_or(0),
        parts: None,
    },
];

fn x509_cert(der: &[u8]) -> Option<x509_cert::Certificate> {
    black_box(x509_cert::Certificate::from_der(der).ok())
}

fn x509_cert_fields(der: &[u8]) -> Option<usize> {
    let certificate = x509_cert(der)?;
    let tbs = &certificate.tbs_certificate;
    black_box((tbs.version, tbs.validity, certificate.signature_algorithm.oid));
    black_box(tbs.subject_public_key_info.algorithm.oid);
    let texts = tbs.issuer.to_string().len() + tbs.subject.to_string().len();
    let key = tbs.subject_public_key_info.subject_public_key.raw_bytes();
    Some(texts + tbs.serial_number.as_bytes().len() + key.len() + certificate.signature.raw_bytes().len())
}

/// x509-cert does not keep the signed bytes, so this function encodes them again.
fn x509_cert_parts(der: &[u8]) -> Option<usize> {
    let certificate = x509_cert(der)?;
    let tbs = black_box(certificate.tbs_certificate.to_der().ok()?);
    Some(tbs.len() + certificate.signature.raw_bytes().len())
}

fn x509_parser(der: &[u8]) -> Option<x509_parser::certificate::X509Certificate<'_>> {
    black_box(
        x509_parser::certificate::X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate),
    )
}

fn x509_parser_fields(der: &[u8]) -> Option<usize> {
    let certificate = x509_parser(der)?;
    let tbs = &certificate.tbs_certificate;
    black_box((tbs.version, &tbs.validity, &certificate.signature_algorithm.algorithm));
    black_box(&tbs.subject_pki.algorithm.algorithm);
    let texts = tbs.issuer.to_string().len() + tbs.subject.to_string().len();
    let key = &tbs.subject_pki.subject_public_key.data;
    Some(texts + tbs.raw_serial().len() + key.len() + certificate.signature_value.data.len())
}

fn x509_parser_parts(der: &[u8]) -> Option<usize> {
    let certificate = x509_parser(der)?;
    Some(certificate.tbs_certificate.as_ref().len() + certificate.signature_value.data.len())
}

fn synta_certificate(der: &[u8]) -> Option<synta_certificate::Certificate<'_>> {
    black_box(synta::Decoder::new(der, Encoding::Der).decode().ok())
}

fn synta_fields(der: &[u8]) -> Option<usize> {
    let certificate = synta_certificate(der)?;
    let tbs = &certificate.tbs_certificate;
    black_box((&tbs.version, &tbs.validity, &certificate.signature_algorithm.algorithm));
    black_box(&tbs.subject_public_key_info.algorithm.algorithm);
    let issuer = synta_certificate::format_dn(tbs.issuer.as_bytes());
    let subject = synta_certificate::format_dn(tbs.subject.as_bytes());
    let key = tbs.subject_public_key_info.subject_public_key.as_bytes();
    let serial = tbs.serial_number.as_bytes().len();
    Some(issuer.len() + subject.len() + serial + key.len() + certificate.signature_value.as_bytes().len())
}

/// Uses the code of the pipeline, which reads DER with synta and does not decode the signed bytes.
fn synta_parts(der: &[u8]) -> Option<usize> {
    let signed = black_box(Signed::parse(der).ok()?);
    Some(signed.tbs.len() + signed.signature.len())
}

/// OpenSSL of the system, through the crate `openssl`.
#[cfg(feature = "openssl")]
mod openssl {
    use std::hint::black_box;

    use openssl::x509::{X509, X509NameRef};

    pub(super) fn parse(der: &[u8]) -> Option<X509> {
        black_box(X509::from_der(der).ok())
    }

    pub(super) fn fields(der: &[u8]) -> Option<usize> {
        let certificate = parse(der)?;
        black_box((certificate.version(), certificate.not_before(), certificate.not_after()));
        black_box(certificate.signature_algorithm().object().nid());
        let texts = text(certificate.issuer_name())? + text(certificate.subject_name())?;
        let serial = certificate.serial_number().to_bn().ok()?.num_bytes();
        // The crate does not give access to the bytes of the key without decoding it, and OpenSSL
        // before 3.5 cannot decode keys of ML-DSA and SLH-DSA.
        let key = certificate.public_key().map_or(0, |key| key.bits());
        let numbers = usize::try_from(serial).ok()? + usize::try_from(key).ok()?;
        Some(texts + numbers + certificate.signature().as_slice().len())
    }

    /// Returns the length of a name as text: `CN=…,` for each of its attributes.
    fn text(name: &X509NameRef) -> Option<usize> {
        let mut text = String::new();
        for entry in name.entries() {
            text += entry.object().nid().short_name().unwrap_or_default();
            text += "=";
            text += &entry.data().to_string().ok()?;
            text += ",";
        }
        Some(black_box(text).len())
    }
}
