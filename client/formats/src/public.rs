//! Public keys and certificates as other programs read them.

use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use der::asn1::ObjectIdentifier;
use der::{Decode, Encode};
use jeton_client::key_types::{self, ED448, ED25519, KeyType, P256, P384, P521};
use pem_rfc7468::LineEnding;
use pkcs1::RsaPublicKeyRef;
use pkcs8::SubjectPublicKeyInfoRef;
use serde_json::json;
use ssh_key::public::{EcdsaPublicKey, Ed25519PublicKey, KeyData, RsaPublicKey as SshRsa};
use ssh_key::{EcdsaCurve, Mpint, PublicKey as SshKey};

use super::Error;
use crate::algorithms::{EC, PSS, RSA};

/// The form of an exported public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicForm {
    /// SubjectPublicKeyInfo in PEM.
    Pem,
    /// SubjectPublicKeyInfo in DER.
    Der,
    /// A line of OpenSSH's `authorized_keys`.
    OpenSsh,
    /// JSON Web Key, RFC 7517.
    Jwk,
    /// The type and the data of a DNSKEY record with these flags, RFC 4034.
    DnsKey(u16),
}

/// The parts of a public key that the forms are made of.
enum Parts<'a> {
    /// The modulus and the exponent.
    Rsa(&'a [u8], &'a [u8]),
    Ec(&'static KeyType, &'a [u8]),
    /// A key of RFC 8410.
    Point(&'static KeyType, &'a [u8]),
    /// ML-DSA.
    Lattice(&'static KeyType, &'a [u8]),
}

pub(crate) const SSH: [(EcdsaCurve, &[u8]); 3] =
    [(EcdsaCurve::NistP256, P256), (EcdsaCurve::NistP384, P384), (EcdsaCurve::NistP521, P521)];

/// The curves of DNSSEC, by the number of their algorithm.
pub(crate) const DNSSEC: [(u8, &[u8]); 4] = [(13, P256), (14, P384), (15, ED25519), (16, ED448)];

fn dnssec(curve: &KeyType) -> Option<u8> {
    DNSSEC.iter().find(|(_, oid)| *oid == curve.oid).map(|(number, _)| *number)
}

/// Encodes a SubjectPublicKeyInfo in this form. `comment` is for OpenSSH.
pub fn public_key(info: &[u8], form: PublicForm, comment: &str) -> Result<Vec<u8>, Error> {
    if form == PublicForm::Der {
        return Ok(info.to_vec());
    }
    if form == PublicForm::Pem {
        return pem("PUBLIC KEY", info);
    }
    let info = SubjectPublicKeyInfoRef::from_der(info).map_err(|_| Error::Damaged("public key"))?;
    let parts = parts(&info)?;
    let mut text = match form {
        PublicForm::OpenSsh => openssh(&parts, comment)?,
        PublicForm::Jwk => jwk(&parts)?,
        PublicForm::DnsKey(flags) => dns_key(&parts, flags)?,
        PublicForm::Der | PublicForm::Pem => return Err(Error::Unknown),
    };
    text.push('\n');
    Ok(text.into_bytes())
}

fn pem(label: &str, der: &[u8]) -> Result<Vec<u8>, Error> {
    let text = pem_rfc7468::encode_string(label, LineEnding::LF, der);
    text.map(String::into_bytes).map_err(|_| Error::Damaged("DER"))
}

fn parts<'a>(info: &SubjectPublicKeyInfoRef<'a>) -> Result<Parts<'a>, Error> {
    let damaged = Error::Damaged("public key");
    let bits = info.subject_public_key.as_bytes().ok_or(damaged.clone())?;
    if info.algorithm.oid == RSA || info.algorithm.oid == PSS {
        let key = RsaPublicKeyRef::from_der(bits).map_err(|_| damaged)?;
        return Ok(Parts::Rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes()));
    }
    let row = |oid: ObjectIdentifier| key_types::of_oid(&oid.to_der().ok()?);
    if info.algorithm.oid == EC {
        let curve = row(info.algorithm.parameters_oid().map_err(|_| damaged)?);
        let curve = curve.ok_or(Error::Refused("this form has no name for the key's curve"))?;
        return Ok(Parts::Ec(curve, bits));
    }
    match row(info.algorithm.oid) {
        Some(curve) if curve.set.is_none() => Ok(Parts::Point(curve, bits)),
        Some(set) if set.name.starts_with("ML-DSA") => Ok(Parts::Lattice(set, bits)),
        _ => Err(Error::Refused("this form has no name for the key's algorithm; PEM and DER support it")),
    }
}

fn openssh(parts: &Parts<'_>, comment: &str) -> Result<String, Error> {
    const NONE: Error = Error::Refused("OpenSSH has RSA, ECDSA and Ed25519 keys only");
    let damaged = |_| NONE;
    let data = match parts {
        Parts::Rsa(n, e) => {
            let integer = Mpint::from_positive_bytes;
            KeyData::Rsa(SshRsa::new(integer(e), integer(n)).map_err(damaged)?)
        }
        Parts::Ec(curve, point) => {
            let key = EcdsaPublicKey::from_sec1_bytes(point).map_err(damaged)?;
            // ssh-key chooses the curve by the length of the point.
            if !SSH.contains(&(key.curve(), curve.oid)) {
                return Err(NONE);
            }
            KeyData::Ecdsa(key)
        }
        Parts::Point(curve, point) if curve.oid == ED25519 => {
            KeyData::Ed25519(Ed25519PublicKey((*point).try_into().map_err(|_| NONE)?))
        }
        _ => return Err(NONE),
    };
    // A line break in the comment would begin another key.
    let comment: String = comment.chars().filter(|letter| !letter.is_control()).collect();
    SshKey::new(data, comment).to_openssh().map_err(damaged)
}

fn jwk(parts: &Parts<'_>) -> Result<String, Error> {
    let url = Base64UrlUnpadded::encode_string;
    let key = match parts {
        Parts::Rsa(n, e) => json!({"kty": "RSA", "n": url(n), "e": url(e)}),
        Parts::Ec(curve, point) => {
            let (x, y) = coordinates(point)?;
            json!({"kty": "EC", "crv": curve.name, "x": url(x), "y": url(y)})
        }
        Parts::Point(curve, point) => json!({"kty": "OKP", "crv": curve.name, "x": url(point)}),
        Parts::Lattice(set, key) => json!({"kty": "AKP", "alg": set.name, "pub": url(key)}),
    };
    Ok(key.to_string())
}

fn dns_key(parts: &Parts<'_>, flags: u16) -> Result<String, Error> {
    const NONE: Error = Error::Refused("DNSSEC has RSA, P-256, P-384, Ed25519 and Ed448 keys only");
    let (algorithm, key) = match parts {
        // RFC 3110, 2: the length of the exponent, the exponent, the modulus.
        Parts::Rsa(n, e) => {
            let length = u8::try_from(e.len()).map_err(|_| NONE)?;
            (8, [&[length], *e, *n].concat())
        }
        Parts::Ec(curve, point) => {
            let (x, y) = coordinates(point)?;
            (dnssec(curve).ok_or(NONE)?, [x, y].concat())
        }
        Parts::Point(curve, point) => (dnssec(curve).ok_or(NONE)?, point.to_vec()),
        Parts::Lattice(..) => return Err(NONE),
    };
    Ok(format!("DNSKEY {flags} 3 {algorithm} {}", Base64::encode_string(&key)))
}

/// Returns x and y of an uncompressed point.
fn coordinates(point: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    match point.split_first() {
        Some((4, rest)) if rest.len() % 2 == 0 => Ok(rest.split_at(rest.len() / 2)),
        _ => Err(Error::Damaged("EC point")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_cannot_begin_another_line() {
        let info = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
        let info = [&info[..], &[7; 32]].concat();
        let line = public_key(&info, PublicForm::OpenSsh, "a\nssh-rsa AAAA").expect("a key");
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(line.starts_with(b"ssh-ed25519 "));
    }

    /// A point of secp256k1 has the length of a point of P-256.
    #[test]
    fn openssh_gets_keys_of_its_own_curves_only() {
        let line = |curve: &[u8]| {
            let algorithm = [b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", curve].concat();
            let algorithm = [&[0x30, algorithm.len() as u8], &algorithm[..]].concat();
            let content = [&algorithm[..], b"\x03\x42\x00\x04", &[7; 64]].concat();
            let info = [&[0x30, content.len() as u8], &content[..]].concat();
            public_key(&info, PublicForm::OpenSsh, "")
        };
        let line_of_p256 = line(b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07").expect("a key");
        assert!(line_of_p256.starts_with(b"ecdsa-sha2-nistp256 "));
        let refused = line(b"\x06\x05\x2b\x81\x04\x00\x0a").expect_err("secp256k1");
        assert!(matches!(refused, Error::Refused(text) if text.starts_with("OpenSSH")), "{refused}");
    }
}
