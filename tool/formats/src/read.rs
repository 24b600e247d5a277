//! Detects the format of a file, and reads its keys and certificates.

use std::borrow::Cow;

use der::{Decode, Encode, Tag};
use pkcs8::SubjectPublicKeyInfoRef;
use zeroize::Zeroizing;

use crate::keys::{self, PrivateKey};
use crate::pem::{self, Block};
use crate::{Error, Password, bind, openssh, pkcs12};

/// The greatest size of a file in bytes.
pub const MAX_FILE: usize = 4 << 20;
/// The greatest number of entries of one file.
const MAX_ENTRIES: usize = 1000;

/// A key or a certificate of a file, in DER.
pub enum Item {
    /// A private key in PKCS #8.
    PrivateKey(PrivateKey),
    /// A public key as SubjectPublicKeyInfo.
    PublicKey(Vec<u8>),
    /// An X.509 certificate.
    Certificate(Vec<u8>),
}

/// An item, and the name that the file gives it.
pub struct Entry {
    /// The item.
    pub item: Item,
    /// The comment of an OpenSSH key, or the friendly name in a PKCS #12 file.
    pub name: Option<String>,
}

/// Reads a file. Fails if nothing in it is a key or a certificate.
pub fn read(file: &[u8], password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    if file.len() > MAX_FILE {
        return Err(Error::Refused("the file is larger than 4 MiB"));
    }
    let entries = match text(file) {
        Some(text) if text.trim_start().starts_with(bind::START) => {
            vec![unnamed(Item::PrivateKey(bind::read(&text)?))]
        }
        Some(text) => from_pem(&text, password)?,
        None => from_der(file, password)?,
    };
    match entries.len() {
        0 => Err(Error::Unknown),
        1..=MAX_ENTRIES => Ok(entries),
        _ => Err(Error::Refused("the file has more than 1,000 keys and certificates")),
    }
}

/// Returns a file in PEM or BIND's format as text; `None` for other files. Bytes that are not UTF-8
/// are replaced, because PEM files may have comments in other encodings.
fn text(file: &[u8]) -> Option<Cow<'_, str>> {
    const MARKS: [&[u8]; 2] = [b"-----BEGIN ", bind::START.as_bytes()];
    let has = |mark: &[u8]| file.windows(mark.len()).any(|window| window == mark);
    let is_der =
        file.first() == Some(&0x30) && file.get(1).is_some_and(|length| *length >= 0x80 || *length < 0x20);
    (!is_der && MARKS.into_iter().any(has)).then(|| String::from_utf8_lossy(file))
}

fn from_pem(text: &str, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for block in pem::blocks(text)? {
        entries.extend(from_block(&block, password)?);
        if entries.len() > MAX_ENTRIES {
            break;
        }
    }
    Ok(entries)
}

fn from_block(block: &Block<'_>, password: &mut Password<'_>) -> Result<Option<Entry>, Error> {
    let item = match block.label {
        "OPENSSH PRIVATE KEY" => {
            let (key, name) = openssh::read(block.text, password)?;
            let name = Some(name).filter(|name| !name.is_empty());
            return Ok(Some(Entry { item: Item::PrivateKey(key), name }));
        }
        "PRIVATE KEY" => private(keys::plain(&block.der()?).ok_or(Error::Damaged("PKCS#8 key"))?),
        "ENCRYPTED PRIVATE KEY" => private(keys::decrypt(&block.der()?, password)?),
        "RSA PRIVATE KEY" => private(keys::rsa(&block.der()?).ok_or(Error::Damaged("PKCS#1 key"))?),
        "EC PRIVATE KEY" => private(keys::ec(&block.der()?).ok_or(Error::Damaged("SEC1 key"))??),
        "PUBLIC KEY" => public(&block.der()?).ok_or(Error::Damaged("public key"))?,
        "CERTIFICATE" | "X509 CERTIFICATE" => {
            certificate(&block.der()?).ok_or(Error::Damaged("certificate"))?
        }
        // A token has no objects for EC PARAMETERS, certificate requests and CRLs.
        _ => return Ok(None),
    };
    Ok(Some(unnamed(item)))
}

fn from_der(der: &[u8], password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    if let Some(key) = keys::plain(der).or_else(|| keys::rsa(der)) {
        return Ok(vec![unnamed(private(key))]);
    }
    if let Some(key) = keys::ec(der) {
        return Ok(vec![unnamed(private(key?))]);
    }
    if let Some(item) = public(der).or_else(|| certificate(der)) {
        return Ok(vec![unnamed(item)]);
    }
    if keys::is_encrypted(der) {
        return Ok(vec![unnamed(private(keys::decrypt(der, password)?))]);
    }
    if pkcs12::is(der) { from_pkcs12(der, password) } else { Err(Error::Unknown) }
}

fn from_pkcs12(der: &[u8], password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let archive = pkcs12::read(der, password)?;
    let keys = archive.keys.into_iter().map(|bag| {
        let key = keys::plain(bag.key.as_der()).ok_or(Error::Damaged("key in the PKCS#12 file"))?;
        Ok(Entry { item: private(key), name: bag.friendly_name })
    });
    let mut entries = keys.collect::<Result<Vec<_>, Error>>()?;
    for bag in archive.certs {
        let item = certificate(bag.cert.as_der()).ok_or(Error::Damaged("certificate in the PKCS#12 file"))?;
        entries.push(Entry { item, name: bag.friendly_name });
    }
    Ok(entries)
}

fn unnamed(item: Item) -> Entry {
    Entry { item, name: None }
}

fn private(key: Zeroizing<Vec<u8>>) -> Item {
    Item::PrivateKey(key)
}

fn public(der: &[u8]) -> Option<Item> {
    SubjectPublicKeyInfoRef::from_der(der).ok().map(|_| Item::PublicKey(der.to_vec()))
}

/// Accepts a sequence with three elements: a sequence, an algorithm and a bit string (RFC 5280,
/// 4.1). The PKCS#11 module that imports the certificate checks the rest.
fn certificate(der: &[u8]) -> Option<Item> {
    #[derive(der::Sequence)]
    struct Certificate<'a> {
        tbs: der::asn1::AnyRef<'a>,
        algorithm: pkcs8::AlgorithmIdentifierRef<'a>,
        signature: der::asn1::BitStringRef<'a>,
    }
    let outer = Certificate::from_der(der).ok()?;
    let sequence = der::Tagged::tag(&outer.tbs) == Tag::Sequence;
    // The certificate, encoded again, must be equal to the input: no byte of the input is ignored.
    let same = outer.to_der().is_ok_and(|again| again == der);
    (sequence && same).then(|| Item::Certificate(der.to_vec()))
}
