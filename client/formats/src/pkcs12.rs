//! PKCS #12 files (RFC 7292) and the certificates of PKCS #7 files (RFC 5652).
//!
//! The crate `p12-keystore` reads DER only, names no algorithm in its errors, and decodes each
//! certificate. `cms` and `pkcs12` have the structures, in releases before 1.0, without a reader.

use zeroize::Zeroizing;

use super::{Entry, Error, Item, Password, Wanted, ber, certificate, keys, pbe};
use crate::ber::{CONTEXT_0, Element, OCTET_STRING, SEQUENCE, SET};

/// 1.2.840.113549.1.7 and the number of a type of content.
pub(crate) const CONTENT: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07";
pub(crate) const DATA: u8 = 1;
const SIGNED_DATA: u8 = 2;
pub(crate) const ENCRYPTED_DATA: u8 = 6;
/// 1.2.840.113549.1.12.10.1 and the number of a type of bag.
pub(crate) const BAG: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01";
/// 1.2.840.113549.1.9.22.1: a certificate of X.509.
pub(crate) const X509: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01";
/// 1.2.840.113549.1.9.20: the attribute with the name of a bag.
pub(crate) const FRIENDLY_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x14";

const DAMAGED: Error = Error::Damaged("PKCS#12 file");

/// Returns whether a file is a sequence that begins with the version 3 and a content.
pub(crate) fn is(der: &[u8]) -> bool {
    let parts = ber::members(der, SEQUENCE).unwrap_or_default();
    matches!(parts[..], [version, content, ..] if ber::number(&version) == Some(3) && content.tag == SEQUENCE)
}

/// Returns whether a file is a PKCS #12 file without a MAC: its reader cannot see a change.
pub fn has_no_mac(file: &[u8]) -> bool {
    let der = ber::first_to_der(file).filter(|(der, _)| is(der));
    der.and_then(|(der, _)| ber::members(&der, SEQUENCE).map(|parts| parts.len() == 2)).unwrap_or_default()
}

/// Reads the keys and certificates of a file.
pub(crate) fn read(der: &[u8], wanted: Wanted, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let parts = ber::members(der, SEQUENCE).ok_or(DAMAGED)?;
    let [_, content, ref mac @ ..] = parts[..] else { return Err(DAMAGED) };
    let safe = match content_of(&content).ok_or(DAMAGED)? {
        (DATA, safe) if safe.tag == OCTET_STRING => safe.content,
        _ => return Err(Error::Refused("a PKCS#12 file that is signed with a key is not supported")),
    };
    match mac {
        [] => {}
        [mac] => pbe::verify_mac(mac, safe, password)?,
        _ => return Err(DAMAGED),
    }
    let safe = ber::to_der(safe).ok_or(DAMAGED)?;
    let mut bags = Bags { wanted, entries: Vec::new() };
    for part in ber::members(&safe, SEQUENCE).ok_or(DAMAGED)? {
        match content_of(&part).ok_or(DAMAGED)? {
            (DATA, data) => bags.read(data.content, password)?,
            (ENCRYPTED_DATA, data) => {
                let contents = password.tried(|password| decrypted(&data, password))?;
                bags.read(&contents, password)?;
            }
            _ => return Err(Error::Refused("a PKCS#12 file that is encrypted with a key is not supported")),
        }
    }
    let is_secret = |entry: &Entry| matches!(entry.item, Item::SecretKey);
    if !bags.entries.is_empty() && bags.entries.iter().all(is_secret) {
        return Err(Error::Refused(
            "the PKCS#12 file has secret keys only; import the bytes of a key with --type aes or generic",
        ));
    }
    // Keys are before certificates.
    bags.entries.sort_by_key(|entry| !matches!(entry.item, Item::PrivateKey(_)));
    Ok(bags.entries)
}

fn content_of<'a>(info: &Element<'a>) -> Option<(u8, Element<'a>)> {
    let [oid, content] = ber::elements(info.content)?[..] else { return None };
    let (number, _) = oid.content.split_last().filter(|(_, rest)| *rest == CONTENT)?;
    (content.tag == CONTEXT_0).then(|| Some((*number, ber::only(content.content)?)))?
}

/// Decrypts EncryptedData (RFC 5652, 8).
fn decrypted(data: &Element<'_>, password: &mut Password<'_>) -> Result<Zeroizing<Vec<u8>>, Error> {
    let parts = ber::elements(data.content).unwrap_or_default();
    let info = parts.get(1).and_then(|info| ber::elements(info.content)).unwrap_or_default();
    match info[..] {
        [_, algorithm, content] if content.tag == 0x80 => pbe::decrypt(&algorithm, content.content, password),
        _ => Err(Error::Damaged("encrypted part of the PKCS#12 file")),
    }
}

struct Bags {
    wanted: Wanted,
    entries: Vec<Entry>,
}

impl Bags {
    fn read(&mut self, contents: &[u8], password: &mut Password<'_>) -> Result<(), Error> {
        // A wrong password without a MAC gives other bytes.
        let contents = ber::to_der(contents).ok_or(Error::PasswordWrong)?;
        for bag in ber::members(&contents, SEQUENCE).ok_or(Error::PasswordWrong)? {
            self.bag(&bag, password)?;
        }
        Ok(())
    }

    fn bag(&mut self, bag: &Element<'_>, password: &mut Password<'_>) -> Result<(), Error> {
        let parts = ber::elements(bag.content).ok_or(DAMAGED)?;
        let [oid, value, ref attributes @ ..] = parts[..] else { return Err(DAMAGED) };
        let value = ber::only(value.content).ok_or(DAMAGED)?;
        let number = oid.content.split_last().filter(|(_, rest)| *rest == BAG).map(|(number, _)| *number);
        let mut entry = match number {
            Some(1 | 2) if self.wanted == Wanted::Public => return Ok(()),
            Some(1) => keys::private(value.whole)?,
            Some(2) => password.tried(|password| keys::decrypt(value.whole, password))?,
            Some(3) => match certificate_of(&value).ok_or(DAMAGED)? {
                Some(der) => certificate::entry(der)?,
                None => return Ok(()),
            },
            // SafeContents. The depth of the file is limited.
            Some(6) => return self.read(value.whole, password),
            Some(5) => Entry::of(Item::SecretKey),
            // CRLs and other contents.
            _ => return Ok(()),
        };
        entry.name = attributes.first().and_then(name);
        self.entries.push(entry);
        Ok(())
    }
}

/// Returns the certificate of a CertBag. `Some(None)` for a certificate that is not of X.509.
fn certificate_of<'a>(bag: &Element<'a>) -> Option<Option<&'a [u8]>> {
    let [oid, value] = ber::elements(bag.content)?[..] else { return None };
    let octets = ber::only(value.content)?;
    Some((oid.content == X509).then_some(octets.content))
}

/// Returns the friendly name of a bag.
fn name(attributes: &Element<'_>) -> Option<String> {
    let all = ber::elements(attributes.content)?.into_iter();
    all.filter_map(|attribute| match ber::elements(attribute.content)?[..] {
        [oid, values] if oid.content == FRIENDLY_NAME && values.tag == SET => {
            Some(certificate::utf16(ber::first(values.content)?.0.content))
        }
        _ => None,
    })
    .next()
}

/// Returns the certificates of X.509 in a PKCS #7 file (SignedData, RFC 5652, 5.1). `None` for
/// other files.
pub(crate) fn signed_data(der: &[u8]) -> Option<Result<Vec<Entry>, Error>> {
    let (info, _) = ber::first(der).filter(|(info, _)| info.tag == SEQUENCE)?;
    let (SIGNED_DATA, data) = content_of(&info)? else { return None };
    let parts = ber::elements(data.content)?;
    let certificates = parts.iter().find(|part| part.tag == CONTEXT_0);
    let certificates = certificates.map_or(Some(Vec::new()), |all| ber::elements(all.content))?;
    // Certificates of other kinds have other tags.
    let der = certificates.into_iter().filter(|one| one.tag == SEQUENCE).map(|one| one.whole);
    Some(der.map(certificate::entry).collect())
}
