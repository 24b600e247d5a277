//! Private keys of BIND (`Private-key-format: v1.x`).

use base64ct::{Base64, Encoding};
use der::asn1::ObjectIdentifier;
use zeroize::Zeroizing;

use crate::Error;
use crate::keys::{self, PrivateKey};

/// The first word of a key file of BIND.
pub(crate) const START: &str = "Private-key-format:";

/// The integers of an RSA key in the order of PKCS #1.
const RSA: [&str; 8] = [
    "Modulus",
    "PublicExponent",
    "PrivateExponent",
    "Prime1",
    "Prime2",
    "Exponent1",
    "Exponent2",
    "Coefficient",
];

/// Reads a key.
pub(crate) fn read(text: &str) -> Result<PrivateKey, Error> {
    let field = |name: &str| {
        let fits = |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.trim() == name);
        text.lines().find(fits).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    };
    let bytes = |name: &str| {
        let decoded = field(name).and_then(|value| Base64::decode_vec(value).ok());
        decoded.map(Zeroizing::new).ok_or(Error::Damaged("BIND key"))
    };
    let algorithm = field("Algorithm").and_then(|value| value.split_whitespace().next());
    let curve = |oid| keys::on_curve(ObjectIdentifier::new_unwrap(oid), &bytes("PrivateKey")?);
    let seed = |oid| keys::seed(ObjectIdentifier::new_unwrap(oid), &bytes("PrivateKey")?);
    match algorithm {
        // RFC 8624: the RSA algorithms, with SHA-1, SHA-256 and SHA-512.
        Some("5" | "7" | "8" | "10") => {
            let parts: Vec<_> = RSA.iter().map(|name| bytes(name)).collect::<Result<_, _>>()?;
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
            keys::rsa_integers(parts.try_into().map_err(|_| Error::Damaged("BIND key"))?)
        }
        Some("13") => curve("1.2.840.10045.3.1.7"),
        Some("14") => curve("1.3.132.0.34"),
        Some("15") => seed("1.3.101.112"),
        Some("16") => seed("1.3.101.113"),
        Some(_) => Err(Error::Refused("this algorithm of BIND is not supported: only RSA, ECDSA and EdDSA")),
        None => Err(Error::Damaged("BIND key")),
    }
}
