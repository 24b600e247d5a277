//! The importers: a file is read in a form that the first byte selects. Each private key is then
//! decoded, as `jeton key import` does. The fields of each certificate are read.

use jeton_formats::{
    Item, Password, PublicForm, Wanted, certificate, contents, identity, public_key, secret_key,
};
use zeroize::Zeroizing;

/// The labels of PEM files. The target encodes the content, so that the fuzzer need not produce
/// Base64.
const LABELS: [&str; 7] = [
    "PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "RSA PRIVATE KEY",
    "EC PRIVATE KEY",
    "PUBLIC KEY",
    "CERTIFICATE",
    "OPENSSH PRIVATE KEY",
];

/// The last two bytes of the object identifiers of ML-DSA, SLH-DSA and ML-KEM below
/// 2.16.840.1.101.3.4.
const SETS: [[u8; 2]; 8] = [[3, 17], [3, 18], [3, 19], [3, 20], [3, 31], [4, 1], [4, 2], [4, 3]];

/// Reads the bytes after the first one.
pub fn read(bytes: &[u8]) {
    let Some((form, content)) = bytes.split_first() else { return };
    let form = usize::from(*form);
    match form % 16 {
        0..7 => file(pem(LABELS[form % 16], content).as_bytes()),
        7 => drop(secret_key(content, &[16, 24, 32])),
        8 => public(content),
        9 => file(&with_set(SETS[form / 16 % SETS.len()], content)),
        10 => file(&[b"Private-key-format: v1.3\n", content].concat()),
        // DER of any kind, and texts.
        _ => file(content),
    }
}

fn file(content: &[u8]) {
    drop(contents(content, &["CERTIFICATE REQUEST"]));
    let mut ask = || Some(Zeroizing::new("pw".to_owned()));
    let Ok(entries) = jeton_formats::read(content, Wanted::All, &mut Password::new(&mut ask)) else { return };
    for entry in entries {
        match entry.item {
            Item::PrivateKey(key) => drop(jeton::admin::keys::read_private_key(&key)),
            Item::PublicKey(key) => public(&key),
            Item::Certificate(der) => read_certificate(&der),
            Item::SecretKey => {}
        }
    }
}

/// Reads a certificate as an import, a listing and an export do.
fn read_certificate(der: &[u8]) {
    drop(certificate::names(der));
    drop(certificate::summary(der));
    if let Ok(key) = certificate::public_key_of(der) {
        public(&key);
    }
}

fn public(info: &[u8]) {
    drop(identity(info));
    for form in [PublicForm::Pem, PublicForm::OpenSsh, PublicForm::Jwk, PublicForm::DnsKey(257)] {
        drop(public_key(info, form, "comment"));
    }
}

fn pem(label: &str, content: &[u8]) -> String {
    let wrap = pem_rfc7468::LineEnding::LF;
    pem_rfc7468::encode_string(label, wrap, content).unwrap_or_default()
}

/// Returns PKCS #8 with a parameter set of the LAMPS RFCs and this key.
fn with_set(set: [u8; 2], key: &[u8]) -> Vec<u8> {
    let [family, number] = set;
    let algorithm = [0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, family, number];
    let length = |length: usize| [0x82, (length >> 8) as u8, length as u8];
    let key = &key[..key.len().min(8192)];
    let inner = [&[2, 1, 0][..], &algorithm, &[0x04], &length(key.len()), key].concat();
    [&[0x30][..], &length(inner.len()), &inner].concat()
}
