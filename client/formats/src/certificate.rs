//! Reads the fields of X.509 certificates that an import, an export or a listing needs.
//!
//! A token carries certificates and decides nothing with them. So only these fields are read, and
//! any value of another field is accepted.

use x509_cert::der::Decode;
use x509_cert::name::Name;
use x509_cert::time::Time;

use super::{Entry, Error, Item, ber};
use crate::ber::{BIT_STRING, CONTEXT_0, Element, INTEGER, OID, SEQUENCE, SET};

/// The common name, 2.5.4.3.
const COMMON_NAME: &[u8] = b"\x55\x04\x03";

/// The names in a certificate. Subject, issuer, serial number and validity are in DER.
pub struct Names {
    /// The subject.
    pub subject: Vec<u8>,
    /// The issuer.
    pub issuer: Vec<u8>,
    /// The serial number as a DER integer.
    pub serial: Vec<u8>,
    /// The validity.
    pub validity: Vec<u8>,
    /// The common name, or all values of the subject.
    pub title: String,
}

/// Reads the names in a certificate.
pub fn names(der: &[u8]) -> Result<Names, Error> {
    let fields = Fields::read(der)?;
    let [serial, issuer, subject, validity] =
        [fields.serial, fields.issuer, fields.subject, fields.validity].map(|field| field.whole.to_vec());
    Ok(Names { title: title(fields.subject), subject, issuer, serial, validity })
}

/// The fields of a certificate that a listing shows.
#[derive(Default)]
pub struct Summary {
    /// The subject in the form of RFC 4514.
    pub subject: String,
    /// The issuer in the same form.
    pub issuer: String,
    /// The bytes of the serial number, big-endian.
    pub serial: Vec<u8>,
    /// The last second of its validity.
    pub not_after: String,
}

/// Summarises a certificate.
pub fn summary(der: &[u8]) -> Result<Summary, Error> {
    let fields = Fields::read(der)?;
    let name =
        |name: Element<'_>| Name::from_der(name.whole).map_or_else(|_| title(name), |name| name.to_string());
    let validity = ber::elements(fields.validity.content).unwrap_or_default();
    Ok(Summary {
        subject: name(fields.subject),
        issuer: name(fields.issuer),
        serial: fields.serial.content.to_vec(),
        not_after: validity.get(1).map(time).unwrap_or_default(),
    })
}

/// Returns the public key of a certificate as SubjectPublicKeyInfo.
pub fn public_key_of(der: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(Fields::read(der)?.public_key.whole.to_vec())
}

/// Splits certificates that follow each other.
pub fn split(all: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let all = ber::elements(all).ok_or(Error::Damaged("certificate"))?;
    Ok(all.iter().map(|one| one.whole).collect())
}

/// Returns whether these bytes are a certificate: its fields, an algorithm and a bit string (RFC
/// 5280, 4.1). A certificate request and a CRL have other fields.
pub(crate) fn is(der: &[u8]) -> bool {
    let tags = ber::members(der, SEQUENCE).map(|all| all.iter().map(|one| one.tag).collect::<Vec<_>>());
    tags.as_deref() == Some(&[SEQUENCE, SEQUENCE, BIT_STRING]) && Fields::read(der).is_ok()
}

/// Returns a certificate with nothing after it.
pub(crate) fn entry(der: &[u8]) -> Result<Entry, Error> {
    Fields::read(der)?;
    if is(der) {
        Ok(Entry::of(Item::Certificate(der.to_vec())))
    } else {
        Err(Error::Damaged("certificate: its signature, or what follows it"))
    }
}

/// The fields of RFC 5280, 4.1.
struct Fields<'a> {
    serial: Element<'a>,
    issuer: Element<'a>,
    validity: Element<'a>,
    subject: Element<'a>,
    public_key: Element<'a>,
}

impl<'a> Fields<'a> {
    fn read(der: &'a [u8]) -> Result<Self, Error> {
        let (outer, _) = ber::first(der).ok_or(Error::Damaged("certificate"))?;
        let (tbs, _) = ber::first(outer.content).ok_or(Error::Damaged("certificate"))?;
        let mut rest = match ber::first(tbs.content) {
            Some((version, rest)) if version.tag == CONTEXT_0 => rest,
            _ => tbs.content,
        };
        let mut next = |tag, field| {
            let (element, after) =
                ber::first(rest).filter(|(found, _)| found.tag == tag).ok_or(Error::Damaged(field))?;
            rest = after;
            Ok(element)
        };
        let serial = next(INTEGER, "certificate: the serial number is not an integer")?;
        next(SEQUENCE, "certificate: the signature algorithm is not a sequence")?;
        Ok(Self {
            serial,
            issuer: next(SEQUENCE, "certificate: the issuer is not a sequence")?,
            validity: next(SEQUENCE, "certificate: the validity is not a sequence")?,
            subject: next(SEQUENCE, "certificate: the subject is not a sequence")?,
            public_key: next(SEQUENCE, "certificate: the public key is not a sequence")?,
        })
    }
}

/// Returns the last common name of a name as a person writes it, or all its values from the last to
/// the first.
fn title(name: Element<'_>) -> String {
    let parts = ber::elements(name.content).unwrap_or_default();
    let parts = parts.iter().filter(|part| part.tag == SET).filter_map(|part| ber::elements(part.content));
    let values = parts.flatten().filter_map(|pair| match ber::elements(pair.content)?[..] {
        [kind, value] if kind.tag == OID => Some((kind.content == COMMON_NAME, text(value)?)),
        _ => None,
    });
    let values: Vec<_> = values.collect();
    let common = values.iter().rfind(|(is_common, _)| *is_common).map(|(_, value)| value.clone());
    common.unwrap_or_else(|| values.into_iter().rev().map(|(_, value)| value).collect::<Vec<_>>().join(", "))
}

/// Decodes a string of any type of ASN.1.
fn text(value: Element<'_>) -> Option<String> {
    let bytes = value.content;
    Some(match value.tag {
        // UTF8String, NumericString, PrintableString, IA5String, VisibleString.
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => String::from_utf8_lossy(bytes).into_owned(),
        // TeletexString: programs write ISO 8859-1 into it.
        0x14 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        // BMPString.
        0x1e => utf16(bytes),
        _ => return None,
    })
}

/// Decodes UTF-16, big-endian.
pub(crate) fn utf16(bytes: &[u8]) -> String {
    let units: Vec<_> = bytes.chunks_exact(2).map(|two| u16::from(two[0]) << 8 | u16::from(two[1])).collect();
    String::from_utf16_lossy(&units)
}

/// Writes a time as ISO 8601 does. A time that cannot be read stays as it is.
fn time(value: &Element<'_>) -> String {
    let time = Time::from_der(value.whole).map(|time| time.to_date_time().to_string());
    time.unwrap_or_else(|_| String::from_utf8_lossy(value.content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_common_name_as_a_person_writes_it() {
        for (name, title_of) in [
            (&b"\x30\x12\x31\x10\x30\x0e\x06\x03\x55\x04\x03\x0c\x07Doe, J."[..], "Doe, J."),
            (b"\x30\x16\x31\x14\x30\x08\x06\x03\x55\x04\x03\x0c\x01a\x30\x08\x06\x03\x55\x04\x0b\x0c\x01b", "a"),
            (b"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x1e\x02\0b", "b"),
            (b"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x14\x02J\xe9", "J\u{e9}"),
            (b"\x30\x19\x31\x0a\x30\x08\x06\x03\x55\x04\x06\x13\x01C\x31\x0b\x30\x09\x06\x03\x55\x04\x0a\x13\x02O,", "O,, C"),
            (b"\x30\0", ""),
        ] {
            assert_eq!(title(ber::first(name).expect("a name").0), title_of);
        }
    }
}
