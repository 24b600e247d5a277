//! The contents of certificate requests and certificates, as far as the CA and the clients of
//! `jeton-driver issue` use them. Most fields are references to the DER.

use der::Decode;
use spki::SubjectPublicKeyInfoOwned;
use synta::{Boolean, Error as Asn1, OctetStringRef, Tag};
use x509_cert::name::Name;

use super::elements::{Elements, SEQUENCE, SET};
use crate::Error;

/// DER of the OID of the extension subjectAltName.
pub const SUBJECT_ALT_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";
/// DER of the OID of the attribute extensionRequest of PKCS #9.
pub const EXTENSION_REQUEST: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e";

/// The CertificationRequestInfo of RFC 2986.
#[derive(Debug)]
pub struct Request<'a> {
    /// The subject. It becomes a part of the certificate, so it has the type of `x509-cert`, which
    /// builds certificates.
    pub subject: Name,
    /// The public key. It becomes a part of the certificate, too.
    pub public_key: SubjectPublicKeyInfoOwned,
    /// The attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// An attribute of a request.
#[derive(Debug)]
pub struct Attribute<'a> {
    /// The OID in DER.
    pub oid: &'a [u8],
    /// The values in DER.
    pub values: Vec<&'a [u8]>,
}

/// The fields of a TBSCertificate of RFC 5280 that a subscriber checks.
#[derive(Debug)]
pub struct Content<'a> {
    /// The public key: a SubjectPublicKeyInfo in DER.
    pub public_key: &'a [u8],
    /// The extensions.
    pub extensions: Vec<Extension<'a>>,
}

/// An extension.
#[derive(Debug)]
pub struct Extension<'a> {
    /// The OID in DER.
    pub oid: &'a [u8],
    /// The value: the content of the octet string.
    pub value: &'a [u8],
}

/// A GeneralName of RFC 5280.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeName<'a> {
    /// A DNS name.
    Dns(&'a str),
    /// A name of another type, or a DNS name that is not ASCII.
    Other,
}

impl<'a> Request<'a> {
    /// Reads the signed bytes of a request.
    pub fn parse(der: &'a [u8]) -> Result<Self, Error> {
        let mut fields = Elements::of(der, SEQUENCE)?;
        // RFC 2986, 4.1: the version is 0.
        if fields.raw()? != b"\x02\x01\x00" {
            return Err(Error::Failed("a certificate request of another version".to_owned()));
        }
        let subject = Name::from_der(fields.raw()?)?;
        let public_key = SubjectPublicKeyInfoOwned::from_der(fields.raw()?)?;
        let mut all = fields.open(Tag::context_specific_constructed(0))?;
        fields.end()?;
        let mut attributes = Vec::new();
        while !all.is_empty() {
            let mut attribute = all.open(SEQUENCE)?;
            let oid = attribute.raw()?;
            let mut set = attribute.open(SET)?;
            attribute.end()?;
            let mut values = Vec::new();
            while !set.is_empty() {
                values.push(set.raw()?);
            }
            attributes.push(Attribute { oid, values });
        }
        Ok(Self { subject, public_key, attributes })
    }
}

impl<'a> Content<'a> {
    /// Reads the signed bytes of a certificate of version 3.
    pub fn parse(der: &'a [u8]) -> Result<Self, Asn1> {
        /// Serial number, algorithm, issuer, validity and subject: between the version and the key.
        const BEFORE_KEY: usize = 5;
        let mut fields = Elements::of(der, SEQUENCE)?;
        fields.open(Tag::context_specific_constructed(0))?;
        for _ in 0..BEFORE_KEY {
            fields.raw()?;
        }
        let public_key = fields.raw()?;
        let mut explicit = fields.open(Tag::context_specific_constructed(3))?;
        let all = explicit.raw()?;
        explicit.end()?;
        fields.end()?;
        Ok(Self { public_key, extensions: extensions(all)? })
    }
}

/// Reads a list of extensions.
pub fn extensions(der: &[u8]) -> Result<Vec<Extension<'_>>, Asn1> {
    let mut list = Elements::of(der, SEQUENCE)?;
    let mut all = Vec::new();
    while !list.is_empty() {
        let mut fields = list.open(SEQUENCE)?;
        let oid = fields.raw()?;
        if fields.is_next(Tag::universal(synta::tag::TAG_BOOLEAN)) {
            // Whether the extension is critical. No caller needs this.
            fields.next::<Boolean>()?;
        }
        let value: OctetStringRef<'_> = fields.next()?;
        fields.end()?;
        all.push(Extension { oid, value: value.as_bytes() });
    }
    Ok(all)
}

/// Reads the value of the extension subjectAltName.
pub fn alternative_names(value: &[u8]) -> Result<Vec<AlternativeName<'_>>, Asn1> {
    let mut list = Elements::of(value, SEQUENCE)?;
    let mut names = Vec::new();
    while !list.is_empty() {
        names.push(match list.element()? {
            (tag, text) if tag == Tag::context_specific(2) && text.is_ascii() => {
                AlternativeName::Dns(std::str::from_utf8(text).unwrap_or_default())
            }
            _ => AlternativeName::Other,
        });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use x509_cert::ext::pkix::SubjectAltName;

    use super::*;
    use crate::{Algorithm, Authority};
    use der::Encode;

    const NAME: &str = "a.issue.test";
    /// The signed part of a request with this name and an Ed25519 key, which OpenSSL made.
    const REQUEST: &[u8] = include_bytes!("request.der");
    /// The position and the length of the public key in [`REQUEST`].
    const KEY: (usize, usize) = (30, 44);

    fn key() -> SubjectPublicKeyInfoOwned {
        SubjectPublicKeyInfoOwned::from_der(&REQUEST[KEY.0..][..KEY.1]).expect("a key")
    }

    #[test]
    fn the_fields_of_a_request_are_those_that_were_encoded() {
        let key = key();
        let request = Request::parse(REQUEST).expect("a request");
        assert_eq!((request.subject.to_string(), request.public_key), (format!("CN={NAME}"), key));
        let [attribute] = request.attributes.as_slice() else { panic!("one attribute") };
        assert_eq!(attribute.oid, EXTENSION_REQUEST);
        let all = extensions(attribute.values[0]).expect("extensions");
        assert_eq!(all[0].oid, SUBJECT_ALT_NAME);
        assert_eq!(alternative_names(all[0].value).expect("names"), [AlternativeName::Dns(NAME)]);
    }

    #[test]
    fn the_fields_of_a_certificate_are_those_that_were_encoded() {
        let key = key();
        let request = Request::parse(REQUEST).expect("a request");
        let names = extensions(request.attributes[0].values[0]).expect("extensions")[0].value;
        let authority = Authority::new(Algorithm::named("ed25519").expect("it is known"), key.clone());
        let authority = authority.expect("a CA");
        let tbs = authority.requested_tbs(1, request.subject, names, key.clone(), 7).expect("a certificate");
        let content = Content::parse(&tbs).expect("a certificate");
        assert_eq!(content.public_key, key.to_der().expect("DER"));
        let value = content.extensions.iter().find(|one| one.oid == SUBJECT_ALT_NAME).expect("it is there");
        let decoded = SubjectAltName::from_der(value.value).expect("names");
        assert_eq!((value.value, decoded.0.len()), (names, 1));
    }

    #[test]
    fn a_shorter_or_longer_request_or_certificate_is_refused() {
        let algorithm = Algorithm::named("ed25519").expect("it is known");
        let authority = Authority::new(algorithm, key()).expect("a CA");
        let certificate = authority.certificate_tbs().expect("a certificate");
        for end in 0..REQUEST.len() {
            assert!(Request::parse(&REQUEST[..end]).is_err(), "{end}");
        }
        for end in 0..certificate.len() {
            assert!(Content::parse(&certificate[..end]).is_err(), "{end}");
        }
        assert!(Request::parse(&[REQUEST, &[0]].concat()).is_err());
        assert!(Content::parse(&[&certificate[..], &[0]].concat()).is_err());
        assert!(Content::parse(REQUEST).is_err() && Request::parse(&certificate).is_err());
    }

    #[test]
    fn a_name_that_is_not_a_dns_name_in_ascii_has_the_type_other() {
        let names = alternative_names(b"\x30\x09\x82\x01a\x82\x01\xe9\x87\x01\x7f").expect("names");
        assert_eq!(names, [AlternativeName::Dns("a"), AlternativeName::Other, AlternativeName::Other]);
        assert!(alternative_names(b"\x30\x03\x82\x02a").is_err());
    }
}
