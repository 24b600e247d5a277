//! Private keys of BIND (`Private-key-format: v1.x`).

use base64ct::{Base64Unpadded, Encoding};
use zeroize::Zeroizing;

use super::error::NO_DSA;
use super::{Error, keys};
use crate::keys::PrivateKey;
use crate::public::DNSSEC;

/// The first word of a key file of BIND.
pub(crate) const START: &str = "Private-key-format:";

/// Returns whether a text is a key file of BIND. Comments may be before its first line.
pub(crate) fn is(text: &str) -> bool {
    let line =
        text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with([';', '#']));
    line.is_some_and(|line| line.starts_with(START))
}

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

pub(crate) fn read(text: &str) -> Result<PrivateKey, Error> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let fields: Vec<_> = fields.map(|(name, value)| (name.trim(), value.trim())).collect();
    let field = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1);
    let bytes = |name: &str| {
        let value = field(name).ok_or(Error::Damaged("BIND key: a number is missing"))?;
        let decoded = Base64Unpadded::decode_vec(value.trim_end_matches('='));
        decoded.map(Zeroizing::new).map_err(|_| Error::Damaged("BIND key: a number is not Base64"))
    };
    if field("Label").is_some() {
        return Err(Error::Refused("the BIND file names a key in another token, and has no private numbers"));
    }
    let is_twice = |name: &&str| fields.iter().filter(|field| field.0 == *name).count() > 1;
    if RSA.iter().chain(&["Algorithm", "PrivateKey"]).any(is_twice) {
        return Err(Error::Damaged("BIND key: a field is there twice; a file has one key"));
    }
    let algorithm = field("Algorithm").and_then(|value| value.split_whitespace().next());
    match algorithm {
        // RFC 8624: the RSA algorithms, with SHA-1, SHA-256 and SHA-512.
        Some("5" | "7" | "8" | "10") => {
            let parts: Vec<_> = RSA.iter().map(|name| bytes(name)).collect::<Result<_, _>>()?;
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_slice()).collect();
            keys::rsa_integers(parts.try_into().map_err(|_| Error::Damaged("BIND key"))?)
        }
        Some("3" | "6") => Err(NO_DSA),
        Some(number) => {
            let known = DNSSEC.iter().find(|(known, _)| number.parse() == Ok(*known));
            let (number, oid) = known.ok_or(Error::Refused(
                "this algorithm of BIND is not supported: only RSA, ECDSA and EdDSA",
            ))?;
            let (oid, key) = (keys::identifier(oid)?, bytes("PrivateKey")?);
            // The key of an Edwards curve is a seed.
            Ok(if *number < 15 { keys::on_curve(oid, &key, None) } else { keys::seed(oid, &key, None) })
        }
        None => Err(Error::Damaged("BIND key: the algorithm is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsa_key_is_refused_with_the_next_step() {
        let read = read("Private-key-format: v1.3\nAlgorithm: 3 (DSA)\n");
        assert_eq!(read.err(), Some(NO_DSA));
    }
}
