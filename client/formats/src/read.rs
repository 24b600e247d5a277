//! Detects the format of a file, and reads its keys and certificates.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use der::Decode;
use pkcs1::RsaPublicKeyRef;
use pkcs8::SubjectPublicKeyInfoRef;

use super::{Entry, Error, Item, Password, Wanted, ber, bind, certificate, jwk, keys, openssh, pkcs12};
use crate::ber::{INTEGER, SEQUENCE};
use crate::pem::{self, Block};

/// The greatest size of a file in bytes.
pub const MAX_FILE: usize = 4 << 20;
/// The greatest number of entries of one file.
const MAX_ENTRIES: usize = 1000;

/// Files without a key or a certificate that is read: what is in them, and the message.
const OTHERS: [(&[u8], &str); 13] = [
    (
        b"PuTTY-User-Key-File-",
        "a key of PuTTY is not read; convert it with `puttygen FILE -O private-openssh -o NEW`",
    ),
    (
        b"BEGIN SSH2 ENCRYPTED",
        "a key of ssh.com is not read; convert it with `puttygen FILE -O private-openssh -o NEW`",
    ),
    (b"\xfe\xed\xfe\xed\0\0\0", JAVA),
    (b"\xce\xce\xce\xce\0\0\0", JAVA),
    (
        b"\x1e\xf1\xb5\xb0\0\0\0\0",
        "a PVK file is not read; convert it with `openssl rsa -inform PVK -in FILE -out NEW`",
    ),
    (b"\x07\x02\0\0\0\xa4\0\0RSA2", BLOB),
    (b"\x07\x02\0\0\0\x24\0\0RSA2", BLOB),
    (b"BEGIN PGP ", "a key of OpenPGP is not read"),
    (b" PRIVATE KEY-----", "the file has a private key and no certificate"),
    (b"CERTIFICATE REQUEST-----", "a certificate request is not imported; `jeton cert issue` signs it"),
    (b" PARAMETERS-----", "the file has parameters and no key"),
    // The identifiers of PKCS #7.
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x07", "the PKCS#7 file has no certificates"),
    // The length of the algorithm's name in an OpenSSH file.
    (b" AAAA", "a public key of OpenSSH is not imported without its private key"),
];
const BLOB: &str =
    "a key BLOB of Windows is not read; convert it with `openssl rsa -inform MSBLOB -in FILE -out NEW`";
const JAVA: &str = "an old key store of Java is not read; convert it with `keytool -importkeystore -srckeystore FILE \
                    -destkeystore NEW -deststoretype pkcs12`";

/// Returns the bytes of a file, or of standard input for `-`. Returns `None` if there are more than
/// `most`.
pub fn input(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    if path == Path::new("-") { limited(io::stdin().lock(), most) } else { limited(File::open(path)?, most) }
}

/// Returns the bytes up to the end. Returns `None` if there are more than `most`.
pub fn limited(source: impl Read, most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    source.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() <= most))
}

/// Reads a file. Fails if nothing in it is a key or a certificate.
pub fn read(file: &[u8], wanted: Wanted, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    if file.len() > MAX_FILE {
        return Err(Error::Refused("the file is larger than 4 MiB"));
    }
    let entries = match text(file) {
        Some(text) if bind::is(&text) => vec![Entry::of(Item::PrivateKey(bind::read(&text)?))],
        Some(text) => from_pem(&text, wanted, password)?,
        None if jwk::is(file) => jwk_entries(file, wanted)?,
        None => from_der(file, wanted, password)?,
    };
    match entries.len() {
        0 => Err(unknown(file)),
        1..=MAX_ENTRIES => Ok(entries),
        _ => Err(Error::Refused("the file has more than 1,000 keys and certificates")),
    }
}

/// Returns a file in PEM or BIND's format as text; `None` for other files.
fn text(file: &[u8]) -> Option<Cow<'_, str>> {
    let is_der = matches!(file, [0x30, ..0x20 | 0x80.., ..]);
    Some(pem::text(file)).filter(|text| !is_der && (text.contains(pem::BEGIN) || text.contains(bind::START)))
}

fn from_pem(text: &str, wanted: Wanted, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for block in pem::blocks(text)? {
        entries.extend(from_block(&block, wanted, password)?);
        if entries.len() > MAX_ENTRIES {
            break;
        }
    }
    Ok(entries)
}

fn from_block(block: &Block<'_>, wanted: Wanted, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let is_private = block.label.ends_with("PRIVATE KEY");
    if is_private && wanted == Wanted::Public {
        return Ok(Vec::new());
    }
    match block.label {
        "OPENSSH PRIVATE KEY" => {
            let (key, name) = openssh::read(&block.der(password)?, password)?;
            let name = Some(name).filter(|name| !name.is_empty());
            Ok(vec![Entry { name, ..Entry::of(Item::PrivateKey(key)) }])
        }
        "PUBLIC KEY" | "RSA PUBLIC KEY" => {
            let item = public(&block.der(password)?).ok_or(Error::Damaged("public key"))?;
            Ok(vec![Entry::of(item)])
        }
        "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => {
            let der = block.der(password)?;
            // OpenSSL writes the trust after a trusted certificate.
            let (first, _) = ber::first(&der).ok_or(Error::Damaged("certificate"))?;
            let is_trusted = block.label.starts_with("TRUSTED");
            Ok(vec![certificate::entry(if is_trusted { first.whole } else { &der })?])
        }
        "PKCS7" | "CMS" | "PKCS12" => from_der(&block.der(password)?, wanted, password),
        _ if is_private => {
            let der =
                ber::to_der(&block.der(password)?).ok_or(Error::Damaged("private key: it is not DER"))?;
            Ok(vec![private(&der, password)?])
        }
        // A token has no objects for EC PARAMETERS, certificate requests and CRLs.
        _ => Ok(Vec::new()),
    }
}

fn private(der: &[u8], password: &mut Password<'_>) -> Result<Entry, Error> {
    if keys::is_encrypted(der) { keys::decrypt(der, password) } else { keys::private(der) }
}

fn jwk_entries(file: &[u8], wanted: Wanted) -> Result<Vec<Entry>, Error> {
    if wanted == Wanted::Public { Ok(Vec::new()) } else { jwk::read(file) }
}

/// Reads a file in DER. It may have several structures that follow each other.
fn from_der(file: &[u8], wanted: Wanted, password: &mut Password<'_>) -> Result<Vec<Entry>, Error> {
    let other = match file {
        [0x30, length, ..] if *length >= 0x80 => {
            Error::Damaged("file in DER: it is cut off, or has more bytes")
        }
        _ => unknown(file),
    };
    let mut entries = Vec::new();
    for der in ber::all_to_der(file).ok_or(other)? {
        entries.extend(structure(&der, file, wanted, password)?);
        if entries.len() > MAX_ENTRIES {
            break;
        }
    }
    Ok(entries)
}

fn structure(
    der: &[u8],
    file: &[u8],
    wanted: Wanted,
    password: &mut Password<'_>,
) -> Result<Vec<Entry>, Error> {
    if pkcs12::is(der) {
        return pkcs12::read(der, wanted, password);
    }
    if let Some(certificates) = pkcs12::signed_data(der) {
        return certificates;
    }
    if certificate::is(der) {
        return Ok(vec![certificate::entry(der)?]);
    }
    if let Some(item) = public(der) {
        return Ok(vec![Entry::of(item)]);
    }
    let parts = ber::members(der, SEQUENCE).unwrap_or_default();
    let is_private = keys::is_encrypted(der) || parts.first().is_some_and(|first| first.tag == INTEGER);
    match (is_private, wanted) {
        (true, Wanted::All) => Ok(vec![private(der, password)?]),
        (true, Wanted::Public) => Ok(Vec::new()),
        _ => Err(unknown(file)),
    }
}

fn unknown(file: &[u8]) -> Error {
    let has = |mark: &[u8]| file.windows(mark.len()).any(|window| window == mark);
    OTHERS.iter().find(|(mark, _)| has(mark)).map_or(Error::Unknown, |(_, text)| Error::Refused(text))
}

/// Reads a public key as SubjectPublicKeyInfo, or an RSA key in PKCS #1.
fn public(der: &[u8]) -> Option<Item> {
    let info = match RsaPublicKeyRef::from_der(der) {
        Ok(_) => keys::rsa_public(der),
        Err(_) => SubjectPublicKeyInfoRef::from_der(der).ok().map(|_| der.to_vec())?,
    };
    Some(Item::PublicKey(info))
}
