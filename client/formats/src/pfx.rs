//! Writes a private key with its certificates as a PKCS #12 file (RFC 7292): AES-256 with PBKDF2
//! and SHA-256, and a MAC with SHA-256, which phones and VPN clients read.

use der::Encode;
use pkcs5::EncryptionScheme;
use pkcs5::pbes2::Parameters;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{Error, ber, pbe};
use crate::ber::{CONTEXT_0, INTEGER, OCTET_STRING, OID, SEQUENCE, SET};
use crate::pkcs12::{BAG, CONTENT, DATA, ENCRYPTED_DATA, FRIENDLY_NAME, X509};

/// The number of iterations of each key derivation.
const ITERATIONS: u32 = 100_000;
/// 1.2.840.113549.1.9.21: the attribute that binds a key and its certificate.
const LOCAL_KEY_ID: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x15";
/// 2.16.840.1.101.3.4.2.1.
const SHA256: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x02\x01";
/// BMPString.
const BMP_STRING: u8 = 0x1e;

/// The random bytes of a file.
pub type Random = [[u8; 16]; 5];

/// Encodes a private key in PKCS #8, and certificates of which the first one is its own.
pub fn pkcs12(
    key: &[u8],
    certificates: &[Vec<u8>],
    name: &str,
    password: &str,
    random: &Random,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let first = certificates.first().ok_or(Error::Damaged("certificate"))?;
    let id = attribute(LOCAL_KEY_ID, &ber::encode(OCTET_STRING, &[&Sha256::digest(first)]));
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let name = attribute(FRIENDLY_NAME, &ber::encode(BMP_STRING, &[&units]));
    let attributes = ber::encode(SET, &[&name, &id]);
    let (algorithm, sealed) = encrypted(key, password, [random[0], random[1]])?;
    let shrouded = ber::encode(SEQUENCE, &[&algorithm, &ber::encode(OCTET_STRING, &[&sealed])]);
    let keys = ber::encode(SEQUENCE, &[&bag(2, &shrouded, &attributes)]);
    let mut bags = Vec::new();
    for (at, der) in certificates.iter().enumerate() {
        let value = ber::encode(CONTEXT_0, &[&ber::encode(OCTET_STRING, &[der])]);
        let value = ber::encode(SEQUENCE, &[&ber::encode(OID, &[X509]), &value]);
        bags.push(bag(3, &value, if at == 0 { &attributes } else { &[] }));
    }
    let bags: Vec<&[u8]> = bags.iter().map(|bag| bag.as_slice()).collect();
    let bags = ber::encode(SEQUENCE, &bags);
    let (algorithm, sealed) = encrypted(&bags, password, [random[2], random[3]])?;
    let info = ber::encode(SEQUENCE, &[&content_type(DATA), &algorithm, &ber::encode(0x80, &[&sealed])]);
    let sealed = ber::encode(SEQUENCE, &[&[INTEGER, 1, 0], &info]);
    let parts = [content(ENCRYPTED_DATA, &sealed), content(DATA, &ber::encode(OCTET_STRING, &[&keys]))];
    let safe = ber::encode(SEQUENCE, &[&parts[0], &parts[1]]);
    let mac = pbe::mac(&safe, password, &random[4], ITERATIONS.into());
    let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[SHA256]), &[5, 0]]);
    let digest = ber::encode(SEQUENCE, &[&algorithm, &ber::encode(OCTET_STRING, &[&mac])]);
    let salt = ber::encode(OCTET_STRING, &[&random[4]]);
    let mac = ber::encode(SEQUENCE, &[&digest, &salt, &number(ITERATIONS)]);
    Ok(ber::encode(SEQUENCE, &[&[INTEGER, 1, 3], &content(DATA, &ber::encode(OCTET_STRING, &[&safe])), &mac]))
}

fn number(number: u32) -> Zeroizing<Vec<u8>> {
    let bytes = number.to_be_bytes();
    // The first byte of the constant above is 0, so the number is positive.
    ber::encode(INTEGER, &[&bytes[1..]])
}

fn content_type(number: u8) -> Zeroizing<Vec<u8>> {
    ber::encode(OID, &[CONTENT, &[number]])
}

fn content(number: u8, value: &[u8]) -> Zeroizing<Vec<u8>> {
    ber::encode(SEQUENCE, &[&content_type(number), &ber::encode(CONTEXT_0, &[value])])
}

fn bag(number: u8, value: &[u8], attributes: &[u8]) -> Zeroizing<Vec<u8>> {
    ber::encode(
        SEQUENCE,
        &[&ber::encode(OID, &[BAG, &[number]]), &ber::encode(CONTEXT_0, &[value]), attributes],
    )
}

fn attribute(oid: &[u8], value: &[u8]) -> Zeroizing<Vec<u8>> {
    ber::encode(SEQUENCE, &[&ber::encode(OID, &[oid]), &ber::encode(SET, &[value])])
}

/// Returns the AlgorithmIdentifier and the encrypted bytes.
fn encrypted(plain: &[u8], password: &str, [salt, iv]: [[u8; 16]; 2]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let wrong = |_| Error::Damaged("parameters of the encryption");
    let parameters = Parameters::generate_pbkdf2_sha256_aes256cbc(ITERATIONS, &salt, iv).map_err(wrong)?;
    let scheme = EncryptionScheme::from(parameters);
    let sealed = scheme.encrypt(password, plain).map_err(wrong)?;
    Ok((scheme.to_der().map_err(|_| Error::Damaged("parameters of the encryption"))?, sealed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, Password, Wanted, read};

    #[test]
    fn a_file_is_read_as_it_was_written_with_its_password_only() {
        let mut ask = || None;
        let file = include_bytes!("../tests/samples/pkcs8.pem");
        let key = match read(file, Wanted::All, &mut Password::new(&mut ask)).expect("a key").remove(0).item {
            Item::PrivateKey(key) => key,
            _ => panic!("a private key"),
        };
        let certificate = crate::contents(include_bytes!("../tests/samples/cert.pem"), &["CERTIFICATE"]);
        let certificate = certificate.expect("a certificate");
        let certificates = [certificate.clone(), certificate].concat();
        let random = [1, 2, 3, 4, 5].map(|byte| [byte; 16]);
        let file = pkcs12(&key, &certificates, "n\u{e4}me", "pw\u{e4}", &random).expect("a file");
        for password in ["pw\u{e4}", "pw"] {
            let mut ask = || Some(Zeroizing::new(password.to_owned()));
            let entries = match read(&file, Wanted::All, &mut Password::new(&mut ask)) {
                Ok(entries) => entries,
                Err(error) => {
                    assert_eq!((password, error), ("pw", Error::PasswordWrong));
                    continue;
                }
            };
            assert_eq!(password, "pw\u{e4}");
            assert_eq!((entries.len(), entries[0].name.as_deref()), (3, Some("n\u{e4}me")));
            assert!(matches!(&entries[0].item, Item::PrivateKey(found) if *found == key));
            assert!(matches!(&entries[2].item, Item::Certificate(der) if *der == certificates[1]));
        }
    }
}
