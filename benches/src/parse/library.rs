//! The libraries that read certificates. Each reads them in the way that its documentation shows.

use std::fmt::Display;
use std::hint::black_box;

use openssl::asn1::Asn1Time;
use openssl::x509::{X509, X509NameRef};
use synta::{GeneralizedTime, Integer};
use synta_certificate::{Time, format_dn};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// A field of a certificate. Numbers and texts that a library keeps in a form of its own are
/// converted when they are compared, not when they are read.
pub(super) enum Field<'a> {
    Version(u64),
    Serial(&'a [u8]),
    Issuer(&'a str),
    Subject(&'a str),
    SignatureAlgorithm(&'a dyn Display),
    KeyAlgorithm(&'a dyn Display),
    /// In seconds since 1970.
    NotBefore(&'a dyn Fn() -> i64),
    NotAfter(&'a dyn Fn() -> i64),
    Key(&'a [u8]),
    Signature(&'a [u8]),
}

pub(super) struct Library {
    pub(super) name: &'static str,
    /// Parses a certificate. Returns whether it succeeds.
    pub(super) parse: fn(&[u8]) -> bool,
    /// Parses a certificate, and passes each field to the function. Returns whether it succeeds.
    pub(super) fields: fn(&[u8], &mut dyn FnMut(Field<'_>)) -> bool,
}

/// The first one is the baseline of the ratios, as in the document.
pub(super) const LIBRARIES: [Library; 4] = [
    Library {
        name: "synta",
        parse: |der| synta(der).is_some(),
        fields: |der, read| synta_fields(der, read).is_some(),
    },
    Library {
        name: "x509-parser",
        parse: |der| x509_parser(der).is_some(),
        fields: |der, read| x509_parser_fields(der, read).is_some(),
    },
    Library {
        name: "x509-cert",
        parse: |der| x509_cert(der).is_some(),
        fields: |der, read| x509_cert_fields(der, read).is_some(),
    },
    Library {
        name: "OpenSSL",
        parse: |der| openssl(der).is_some(),
        fields: |der, read| openssl_fields(der, read).is_some(),
    },
];

fn synta(der: &[u8]) -> Option<synta_certificate::Certificate<'_>> {
    black_box(synta_certificate::Certificate::from_der(der).ok())
}

fn synta_fields(der: &[u8], read: &mut dyn FnMut(Field<'_>)) -> Option<()> {
    let certificate = synta(der)?;
    let tbs = &certificate.tbs_certificate;
    let seconds = |time: &Time| match time {
        Time::GeneralTime(time) => time.to_unix(),
        Time::UtcTime(time) => {
            let (year, month, day) = (time.year, time.month, time.day);
            let (hour, minute, second) = (time.hour, time.minute, time.second);
            GeneralizedTime { year, month, day, hour, minute, second, milliseconds: None }.to_unix()
        }
    };
    let version = tbs.version.as_ref().map_or(Ok(0), Integer::as_i64);
    read(Field::Version(version.ok()? as u64));
    read(Field::Serial(tbs.serial_number.as_bytes()));
    read(Field::Issuer(&format_dn(tbs.issuer.as_bytes())));
    read(Field::Subject(&format_dn(tbs.subject.as_bytes())));
    read(Field::SignatureAlgorithm(&certificate.signature_algorithm.algorithm));
    read(Field::KeyAlgorithm(&tbs.subject_public_key_info.algorithm.algorithm));
    read(Field::NotBefore(&|| seconds(&tbs.validity.not_before)));
    read(Field::NotAfter(&|| seconds(&tbs.validity.not_after)));
    read(Field::Key(tbs.subject_public_key_info.subject_public_key.as_bytes()));
    read(Field::Signature(certificate.signature_value.as_bytes()));
    Some(())
}

fn x509_parser(der: &[u8]) -> Option<X509Certificate<'_>> {
    black_box(X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate))
}

fn x509_parser_fields(der: &[u8], read: &mut dyn FnMut(Field<'_>)) -> Option<()> {
    let certificate = x509_parser(der)?;
    let tbs = &certificate.tbs_certificate;
    read(Field::Version(tbs.version.0.into()));
    read(Field::Serial(tbs.raw_serial()));
    read(Field::Issuer(&tbs.issuer.to_string()));
    read(Field::Subject(&tbs.subject.to_string()));
    read(Field::SignatureAlgorithm(&certificate.signature_algorithm.algorithm));
    read(Field::KeyAlgorithm(&tbs.subject_pki.algorithm.algorithm));
    read(Field::NotBefore(&|| tbs.validity.not_before.timestamp()));
    read(Field::NotAfter(&|| tbs.validity.not_after.timestamp()));
    read(Field::Key(&tbs.subject_pki.subject_public_key.data));
    read(Field::Signature(&certificate.signature_value.data));
    Some(())
}

fn x509_cert(der: &[u8]) -> Option<Certificate> {
    black_box(Certificate::from_der(der).ok())
}

fn x509_cert_fields(der: &[u8], read: &mut dyn FnMut(Field<'_>)) -> Option<()> {
    let certificate = x509_cert(der)?;
    let tbs = &certificate.tbs_certificate;
    read(Field::Version(tbs.version as u64));
    read(Field::Serial(tbs.serial_number.as_bytes()));
    read(Field::Issuer(&tbs.issuer.to_string()));
    read(Field::Subject(&tbs.subject.to_string()));
    read(Field::SignatureAlgorithm(&certificate.signature_algorithm.oid));
    read(Field::KeyAlgorithm(&tbs.subject_public_key_info.algorithm.oid));
    read(Field::NotBefore(&|| tbs.validity.not_before.to_unix_duration().as_secs() as i64));
    read(Field::NotAfter(&|| tbs.validity.not_after.to_unix_duration().as_secs() as i64));
    read(Field::Key(tbs.subject_public_key_info.subject_public_key.raw_bytes()));
    read(Field::Signature(certificate.signature.raw_bytes()));
    Some(())
}

fn openssl(der: &[u8]) -> Option<X509> {
    black_box(X509::from_der(der).ok())
}

/// Passes neither the key nor its algorithm: the crate gives access to them only by decoding the
/// key, and OpenSSL before 3.5 cannot decode keys of ML-DSA.
fn openssl_fields(der: &[u8], read: &mut dyn FnMut(Field<'_>)) -> Option<()> {
    let certificate = openssl(der)?;
    let seconds = |time| {
        let start = Asn1Time::from_unix(0).expect("a time");
        let since = start.diff(time).expect("a time");
        i64::from(since.days) * 86_400 + i64::from(since.secs)
    };
    read(Field::Version(certificate.version() as u64));
    read(Field::Serial(&certificate.serial_number().to_bn().ok()?.to_vec()));
    read(Field::Issuer(&text(certificate.issuer_name())?));
    read(Field::Subject(&text(certificate.subject_name())?));
    read(Field::SignatureAlgorithm(&certificate.signature_algorithm().object()));
    read(Field::NotBefore(&|| seconds(certificate.not_before())));
    read(Field::NotAfter(&|| seconds(certificate.not_after())));
    read(Field::Signature(certificate.signature().as_slice()));
    Some(())
}

/// Returns a name as text: `CN=…,` for each of its attributes.
fn text(name: &X509NameRef) -> Option<String> {
    let mut text = String::new();
    for entry in name.entries() {
        text += entry.object().nid().short_name().unwrap_or_default();
        text += "=";
        text += &entry.data().to_string().ok()?;
        text += ",";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ::openssl::asn1::Asn1Object;

    use super::*;
    use crate::parse::set;

    /// A name with an attribute that x509-cert does not know, and shows in DER.
    const UNKNOWN: &str = "unknown";

    /// Returns the fields of a certificate in one form. Names have the letters of their values in
    /// the order of the alphabet, because each library has another order, other separators and
    /// other names of the attributes.
    fn fields(library: &Library, der: &[u8]) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::new();
        let number = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            format!("{:02x?}", &bytes[zeros..])
        };
        let letters = |name: &str| {
            if name.contains("=#") {
                return UNKNOWN.to_owned();
            }
            let values = name.split(',').map(|part| part.split_once('=').map_or(part, |(_, value)| value));
            let mut letters: Vec<_> =
                values.flat_map(str::chars).filter(|one| one.is_alphanumeric()).collect();
            letters.sort_unstable();
            letters.into_iter().collect()
        };
        let object = |oid: &dyn Display| {
            let oid = oid.to_string();
            // OpenSSL shows the name of the algorithm if it knows one.
            Asn1Object::from_str(&oid).map_or(oid, |known| known.to_string())
        };
        let succeeds = (library.fields)(der, &mut |field| {
            let (name, value) = match field {
                Field::Version(number) => ("version", number.to_string()),
                Field::Serial(bytes) => ("serial", number(bytes)),
                Field::Issuer(name) => ("issuer", letters(name)),
                Field::Subject(name) => ("subject", letters(name)),
                Field::SignatureAlgorithm(oid) => ("signature algorithm", object(oid)),
                Field::KeyAlgorithm(oid) => ("key algorithm", object(oid)),
                Field::NotBefore(time) => ("not before", time().to_string()),
                Field::NotAfter(time) => ("not after", time().to_string()),
                Field::Key(bytes) => ("key", format!("{bytes:02x?}")),
                Field::Signature(bytes) => ("signature", format!("{bytes:02x?}")),
            };
            assert!(all.insert(name, value).is_none(), "{name} twice");
        });
        assert!(succeeds && (library.parse)(der), "{} refuses a certificate", library.name);
        all
    }

    #[test]
    fn each_library_reads_the_same_fields() {
        for set in set::all(&[2, 3]).expect("certificates") {
            for der in &set.certificates {
                let ours = fields(&LIBRARIES[0], der);
                assert_eq!(ours.len(), 10);
                for library in &LIBRARIES[1..] {
                    let theirs = fields(library, der);
                    assert!(theirs.len() >= 8, "{}", library.name);
                    for (name, value) in theirs.into_iter().filter(|(_, value)| value != UNKNOWN) {
                        assert_eq!(value, ours[name], "{name} of {} by {}", set.name, library.name);
                    }
                }
            }
        }
    }

    #[test]
    fn each_library_refuses_half_a_certificate() {
        for set in set::all(&[1]).expect("certificates") {
            for der in &set.certificates {
                let half = &der[..der.len() / 2];
                for library in &LIBRARIES {
                    assert!(!(library.parse)(half), "{}", library.name);
                    assert!(!(library.fields)(half, &mut |_| ()), "{}", library.name);
                }
            }
        }
    }
}
