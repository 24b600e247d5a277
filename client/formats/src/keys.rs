//! Private keys in DER, as PKCS #8.

use der::Decode;
use der::asn1::ObjectIdentifier;
use jeton_client::key_types;
use jeton_client::safe_text::hex;
use pkcs1::RsaPrivateKeyRef;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::error::NO_DSA;
use super::{Entry, Error, Item, Password, ber, composite, lattice, pbe};
use crate::algorithms::{EC, ED448, ED25519, NULL, PSS, RSA};
use crate::ber::{BIT_STRING, CONTEXT_0, Element, INTEGER, OCTET_STRING, OID, SEQUENCE};

const SECP256K1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.10");
const DSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10040.4.1");
const DH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.3.1");
/// The constructed and the primitive tag \[1\].
const CONTEXT_1: u8 = 0xa1;
const PUBLIC_KEY: u8 = 0x81;

/// The curves that explicit parameters may describe, each with the SHA-256 digest of its numbers
/// (see [`curve_of`]).
#[rustfmt::skip]
const CURVES: [(&str, &str); 9] = [
    ("1.2.840.10045.3.1.7", "64d4fb197a74a3118fb0bc464972cd12f8a77f11742f4d6164ffdcb8f946819e"),
    ("1.3.132.0.33", "ec30bc5544ea376b5bc23747616748a23f8b6847c2bc04d8d6b25fde935f1e3a"),
    ("1.3.132.0.34", "850f829b24bd6efd31de047bd66bc25f97010387a264044c4defbac0f385404e"),
    ("1.3.132.0.35", "2b1b780f49335c1ffe611994585ba46faab2a81b36d3376ee3ab47c9e4aae11b"),
    ("1.3.132.0.10", "17906804f67805ffadd15d3d8c8a6f634d6d80127bc51172fa8d3e0a80ed17c1"),
    ("1.3.36.3.3.2.8.1.1.7", "c4c8f8108934e3d9b09cbc8b0068199b0af3a2cb6e425ebc80c16bb0db9c58cd"),
    ("1.3.36.3.3.2.8.1.1.8", "645ee50058c2c70b6023208f8ebcf181501889dcf779017663a9e6d9c0ff0b01"),
    ("1.3.36.3.3.2.8.1.1.11", "07da8960bac81cc50249b1d35c3ce9d88ba629e4aec1362b3fbac1673f638b66"),
    ("1.3.36.3.3.2.8.1.1.12", "6098610fd9ffb576882ec0064d67d901b06357e6c131426d8f7148a15a373cdb"),
];

/// A private key in PKCS #8, wiped when it is dropped.
pub(crate) type PrivateKey = Zeroizing<Vec<u8>>;

/// Reads an object identifier of the table of key types.
pub(crate) fn identifier(der: &[u8]) -> Result<ObjectIdentifier, Error> {
    ObjectIdentifier::from_der(der).map_err(|_| Error::Damaged("object identifier"))
}

/// Encodes PKCS #8. `public` is the content of the bit string of the public key.
fn pkcs8(oid: ObjectIdentifier, parameters: &[u8], key: &[u8], public: Option<&[u8]>) -> PrivateKey {
    let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[oid.as_bytes()]), parameters]);
    let version = [INTEGER, 1, u8::from(public.is_some())];
    let public = public.map(|bits| ber::encode(PUBLIC_KEY, &[bits])).unwrap_or_default();
    ber::encode(SEQUENCE, &[&version, &algorithm, &ber::encode(OCTET_STRING, &[key]), &public])
}

/// Reads a private key in PKCS #8, PKCS #1 or SEC 1.
pub(crate) fn private(der: &[u8]) -> Result<Entry, Error> {
    const DAMAGED: Error = Error::Damaged("private key: it is neither PKCS#8, PKCS#1 nor SEC1");
    let parts = ber::members(der, SEQUENCE).ok_or(DAMAGED)?;
    let key = match parts[..] {
        [version, algorithm, key, ref rest @ ..] if (algorithm.tag, key.tag) == (SEQUENCE, OCTET_STRING) => {
            ber::number(&version).ok_or(DAMAGED)?;
            return plain(&algorithm, key.content, rest);
        }
        [version, key, ..] if ber::number(&version) == Some(1) && key.tag == OCTET_STRING => {
            ec(None, der, None)?
        }
        // The form of OpenSSL: p, q, g, y and x.
        [version, _, _, _, y, x] if ber::number(&version) == Some(0) && y.tag == x.tag => {
            return Err(NO_DSA);
        }
        [version, _, _, ..] if parts.len() >= 9 && version.tag == INTEGER => rsa(der, None)?,
        _ => return Err(DAMAGED),
    };
    Ok(Entry::of(Item::PrivateKey(key)))
}

/// Reads PKCS #8 without its attributes.
fn plain(algorithm: &Element<'_>, key: &[u8], rest: &[Element<'_>]) -> Result<Entry, Error> {
    let (oid, parameters) = ber::first(algorithm.content).ok_or(Error::Damaged("PKCS#8 key"))?;
    let identified = ObjectIdentifier::from_bytes(oid.content);
    let identified = identified.map_err(|_| Error::Damaged("PKCS#8 key: its object identifier"))?;
    let after = || Error::Damaged("PKCS#8 key: what follows the key");
    let public = match rest.iter().map(|part| part.tag).collect::<Vec<_>>()[..] {
        [] | [CONTEXT_0] => None,
        [PUBLIC_KEY] | [CONTEXT_0, PUBLIC_KEY] => rest.last().map(|last| last.content),
        // The form of some libraries for Ed25519.
        [CONTEXT_1] | [CONTEXT_0, CONTEXT_1] => {
            let inner = rest.last().and_then(|last| ber::only(last.content));
            Some(inner.ok_or_else(after)?.content)
        }
        _ => return Err(after()),
    };
    let key = match identified {
        EC => ec(ber::first(parameters).map(|(curve, _)| curve), key, public)?,
        // The token has RSA keys that may only use the mechanisms of PSS.
        RSA | PSS => rsa(key, public)?,
        DSA => return Err(NO_DSA),
        _ => {
            let (key, behind) = lattice::plain(oid.whole, key)?;
            let behind = behind.as_deref().map(bits);
            if let (Some(behind), Some(public)) = (&behind, public)
                && behind != public
            {
                return Err(Error::Damaged("private key: it has two public keys"));
            }
            pkcs8(identified, parameters, &key, behind.as_deref().or(public))
        }
    };
    Ok(Entry { is_pss: identified == PSS, ..Entry::of(Item::PrivateKey(key)) })
}

/// Returns the algorithm and the data of an encrypted key in PKCS #8.
fn encrypted(der: &[u8]) -> Option<(Element<'_>, Element<'_>)> {
    match ber::members(der, SEQUENCE)?[..] {
        [algorithm, data] if (algorithm.tag, data.tag) == (SEQUENCE, OCTET_STRING) => Some((algorithm, data)),
        _ => None,
    }
}

/// Returns whether these bytes are an encrypted key in PKCS #8.
pub(crate) fn is_encrypted(der: &[u8]) -> bool {
    encrypted(der).is_some()
}

/// Decrypts a key in PKCS #8.
pub(crate) fn decrypt(der: &[u8], password: &mut Password<'_>) -> Result<Entry, Error> {
    let (algorithm, data) = encrypted(der).ok_or(Error::Damaged("encrypted PKCS#8 key"))?;
    let key = pbe::decrypt(&algorithm, data.content, password)?;
    // A wrong password may leave a padding that looks right.
    if ber::members(&key, SEQUENCE).is_none() {
        return Err(Error::PasswordWrong);
    }
    private(&key)
}

/// Encodes an RSA key that is in PKCS #1.
fn rsa(key: &[u8], public: Option<&[u8]>) -> Result<PrivateKey, Error> {
    // RFC 8017, A.1.2: version 1 is a key of more than two primes.
    match ber::members(key, SEQUENCE).unwrap_or_default().first().and_then(ber::number) {
        Some(0) => Ok(pkcs8(RSA, NULL, key, public)),
        Some(1) => Err(Error::Refused("an RSA key of more than two primes is not supported")),
        _ => Err(Error::Damaged("RSA key")),
    }
}

/// Names the curve of an EC key in PKCS #8, or the algorithm of another key, for a message. Also
/// returns whether the token has keys of this type.
pub fn algorithm(der: &[u8]) -> (String, bool) {
    let algorithm = ber::members(der, SEQUENCE).and_then(|parts| ber::elements(parts.get(1)?.content));
    let name = |oid: Element<'_>| ObjectIdentifier::from_bytes(oid.content).map(|oid| oid.to_string());
    match algorithm.unwrap_or_default()[..] {
        [oid, ..] if oid.content == RSA.as_bytes() => ("RSA".to_owned(), true),
        [oid, ..] if oid.content == DH.as_bytes() => ("DH".to_owned(), true),
        [oid, curve] if oid.content == EC.as_bytes() => {
            (format!("the curve {}", name(curve).unwrap_or_default()), true)
        }
        [oid, ..] => {
            let text = format!("the algorithm {}", name(oid).unwrap_or_default());
            (text, key_types::of_oid(oid.whole).is_some())
        }
        [] => ("an unknown algorithm".to_owned(), false),
    }
}

/// Reads `ECPrivateKey` of SEC 1. `outer` and `public` are the curve and the public key in the PKCS
/// #8 around it. The curve gets a name, and the public key is kept: the core compares it.
fn ec(outer: Option<Element<'_>>, key: &[u8], public: Option<&[u8]>) -> Result<PrivateKey, Error> {
    let damaged = || Error::Damaged("EC key");
    let parts = ber::members(key, SEQUENCE).ok_or_else(damaged)?;
    let [version, scalar, ref rest @ ..] = parts[..] else { return Err(damaged()) };
    // SEC 1, C.4: the curve and the public key, each once.
    let tags: Vec<_> = rest.iter().map(|part| part.tag).collect();
    if !matches!(tags[..], [] | [CONTEXT_0] | [CONTEXT_1] | [CONTEXT_0, CONTEXT_1]) {
        return Err(damaged());
    }
    let tagged = |tag| rest.iter().find(|part| part.tag == tag);
    let inner = tagged(CONTEXT_0).map(|part| ber::only(part.content).ok_or_else(damaged)).transpose()?;
    let curves = [outer, inner].into_iter().flatten().filter(|curve| curve.whole != NULL);
    let curves = curves.map(curve_of).collect::<Result<Vec<_>, _>>()?;
    let curve = curves.first().ok_or(Error::Refused("the EC key does not name its curve"))?;
    if curves.iter().any(|other| other != curve) {
        return Err(Error::Damaged("EC key: it names two curves"));
    }
    let own = tagged(CONTEXT_1).map(|part| part.whole).unwrap_or_default();
    let key = ber::encode(SEQUENCE, &[version.whole, scalar.whole, own]);
    Ok(pkcs8(EC, &ber::encode(OID, &[curve.as_bytes()]), &key, public))
}

/// Returns what all encodings of a public key have in common. A curve may have a name or explicit
/// parameters, a point may be compressed, and an RSA key may be for RSASSA-PSS.
pub fn identity(info: &[u8]) -> Vec<u8> {
    common(info).map_or_else(|| info.to_vec(), |(_, name, key)| [name, key].concat())
}

/// What all public keys of one secret have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretIdentity {
    /// An RSA modulus, without zeros at its start: its factors give the private key of each
    /// exponent. Another modulus may have one of them.
    Modulus(Vec<u8>),
    /// A coordinate x on secp256k1. The owner of the key knows the private keys of two others.
    Secp256k1(Vec<u8>),
    /// The type of the key, and a coordinate of a point, or the whole key.
    Other(Vec<u8>),
}

/// Returns what all public keys of each secret of a key have in common. A composite key has the
/// secrets of its components, and every other key has one.
pub fn secret_identities(info: &[u8]) -> Vec<SecretIdentity> {
    match composite::components(info) {
        Some(components) => components.iter().map(|info| secret_identity(info)).collect(),
        None => vec![secret_identity(info)],
    }
}

/// Returns what all public keys of one secret have in common. The negative of a point has the
/// negative of its private key.
fn secret_identity(info: &[u8]) -> SecretIdentity {
    let of_secret = || {
        let (algorithm, name, key) = common(info)?;
        Some(match (algorithm, &key[..]) {
            (RSA | PSS, key) => {
                let modulus = ber::members(key, SEQUENCE)?.first()?.content;
                SecretIdentity::Modulus(without_zeros(modulus).to_vec())
            }
            (EC, [2 | 3, x @ ..]) if name == SECP256K1.as_bytes() => SecretIdentity::Secp256k1(x.to_vec()),
            (EC, [2 | 3, x @ ..]) => SecretIdentity::Other([&name, x].concat()),
            // RFC 8032, 5.1.2 and 5.2.2: the last bit is the sign of the other coordinate.
            (ED25519 | ED448, [y @ .., last]) => SecretIdentity::Other([&name, y, &[last & 0x7f]].concat()),
            _ => return None,
        })
    };
    of_secret().unwrap_or_else(|| SecretIdentity::Other(identity(info)))
}

/// Returns the algorithm of a public key, the algorithm or the curve that names its type, and its
/// bits. Parameters of an algorithm that has none do not count, and neither do unused bits.
fn common(info: &[u8]) -> Option<(ObjectIdentifier, Vec<u8>, Vec<u8>)> {
    let [algorithm, key] = ber::members(info, SEQUENCE)?[..] else { return None };
    let (oid, parameters) = ber::first(algorithm.content)?;
    let key = key.content.get(1..)?;
    let algorithm = ObjectIdentifier::from_bytes(oid.content).ok()?;
    let (name, key) = match algorithm {
        RSA | PSS => (RSA, key.to_vec()),
        EC => (curve_of(ber::first(parameters)?.0).ok()?, compressed(key)),
        other => (other, key.to_vec()),
    };
    Some((algorithm, name.as_bytes().to_vec(), key))
}

/// Encodes an RSA public key that is in PKCS #1.
pub(crate) fn rsa_public(key: &[u8]) -> Vec<u8> {
    let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[RSA.as_bytes()]), NULL]);
    ber::encode(SEQUENCE, &[&algorithm, &ber::encode(BIT_STRING, &[&bits(key)])]).to_vec()
}

/// Returns the encoding of an RSA public key for RSASSA-PSS only.
pub fn for_pss(info: &[u8]) -> Option<Vec<u8>> {
    let [_, key] = ber::members(info, SEQUENCE)?[..] else { return None };
    let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[PSS.as_bytes()])]);
    Some(ber::encode(SEQUENCE, &[&algorithm, key.whole]).to_vec())
}

/// Returns a point in its compressed form (SEC 1, 2.3.3).
fn compressed(point: &[u8]) -> Vec<u8> {
    match point {
        [4 | 6 | 7, point @ ..] if point.len() % 2 == 0 && !point.is_empty() => {
            [&[2 | point[point.len() - 1] & 1], &point[..point.len() / 2]].concat()
        }
        other => other.to_vec(),
    }
}

/// Returns the name of a curve. Explicit parameters (SEC 1, C.2) have the name of the curve that is
/// equal to them in its prime, its coefficients, its base point and its order.
fn curve_of(parameters: Element<'_>) -> Result<ObjectIdentifier, Error> {
    let damaged = || Error::Damaged("EC key: the parameters of its curve");
    if parameters.tag == OID {
        return ObjectIdentifier::from_bytes(parameters.content).map_err(|_| damaged());
    }
    let parts = ber::elements(parameters.content).ok_or_else(damaged)?;
    let [_, field, curve, base, order, ..] = parts[..] else { return Err(damaged()) };
    let [field, curve] = [field, curve].map(|part| ber::elements(part.content).unwrap_or_default());
    let ([_, prime], [a, b, ..]) = (&field[..], &curve[..]) else { return Err(damaged()) };
    let base = compressed(base.content);
    let mut digest = Sha256::new();
    for number in [prime.content, a.content, b.content, &base, order.content] {
        let number = without_zeros(number);
        digest.update([number.len() as u8]);
        digest.update(number);
    }
    let digest = hex(&digest.finalize());
    let known = CURVES.iter().find(|(_, known)| *known == digest);
    known
        .map(|(oid, _)| ObjectIdentifier::new_unwrap(oid))
        .ok_or(Error::Refused("the EC key has explicit parameters that are not those of a known curve"))
}

/// Encodes an EC key. The module refuses a public key that is not its own.
pub(crate) fn on_curve(curve: ObjectIdentifier, scalar: &[u8], public: Option<&[u8]>) -> PrivateKey {
    let key = ber::encode(SEQUENCE, &[&[INTEGER, 1, 1], &ber::encode(OCTET_STRING, &[scalar])]);
    pkcs8(EC, &ber::encode(OID, &[curve.as_bytes()]), &key, public.map(bits).as_deref())
}

/// Encodes an Ed25519, Ed448, X25519 or X448 key. The module refuses a public key that is not its
/// own.
pub(crate) fn seed(oid: ObjectIdentifier, seed: &[u8], public: Option<&[u8]>) -> PrivateKey {
    pkcs8(oid, &[], &ber::encode(OCTET_STRING, &[seed]), public.map(bits).as_deref())
}

/// Encodes an ML-DSA or ML-KEM key from its seed. The module refuses a public key that is not its
/// own.
pub(crate) fn lattice(oid: ObjectIdentifier, seed: &[u8], public: Option<&[u8]>) -> PrivateKey {
    pkcs8(oid, &[], &ber::encode(0x80, &[seed]), public.map(bits).as_deref())
}

/// Returns the content of a bit string.
fn bits(bytes: &[u8]) -> Vec<u8> {
    [&[0], bytes].concat()
}

/// Returns a positive integer without the zeros at its start.
fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

/// Encodes an RSA key from its integers: n, e, d, p, q, d mod (p-1), d mod (q-1), q^-1 mod p.
pub(crate) fn rsa_integers(parts: [&[u8]; 8]) -> Result<PrivateKey, Error> {
    let integer = |bytes: &[u8]| {
        let bytes = without_zeros(bytes);
        let sign: &[u8] = if bytes.first().is_none_or(|byte| *byte >= 0x80) { &[0] } else { &[] };
        ber::encode(INTEGER, &[sign, bytes])
    };
    let numbers = parts.map(integer);
    let all: Vec<&[u8]> =
        [&[INTEGER, 1, 0][..]].into_iter().chain(numbers.iter().map(|n| n.as_slice())).collect();
    let key = ber::encode(SEQUENCE, &all);
    RsaPrivateKeyRef::from_der(&key).map_err(|_| Error::Damaged("RSA key"))?;
    rsa(&key, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of OpenSSL and PKCS #8.
    #[test]
    fn a_dsa_key_is_refused_with_the_next_step() {
        let one = [INTEGER, 1, 1];
        let openssl = ber::encode(SEQUENCE, &[&[INTEGER, 1, 0], &one, &one, &one, &one, &one]);
        let pkcs8 = pkcs8(DSA, &ber::encode(SEQUENCE, &[&one, &one, &one]), &one, None);
        for error in [private(&openssl).err(), private(&pkcs8).err()] {
            assert_eq!(error, Some(NO_DSA));
        }
    }

    fn info(oid: ObjectIdentifier, parameters: &[u8], unused: u8, key: &[u8]) -> Vec<u8> {
        let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[oid.as_bytes()]), parameters]);
        ber::encode(SEQUENCE, &[&algorithm, &ber::encode(BIT_STRING, &[&[unused], key])]).to_vec()
    }

    /// The first key of each kind has all the others as encodings, or as keys with its secret.
    #[test]
    fn a_key_has_one_identity_and_all_keys_of_a_secret_have_one() {
        let rsa = |n: &[u8], e: u8| {
            ber::encode(SEQUENCE, &[&ber::encode(INTEGER, &[n]), &ber::encode(INTEGER, &[&[e]])])
        };
        let curve = ber::encode(OID, &[ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7").as_bytes()]);
        let (even, odd) = ([[7; 32], [8; 32]].concat(), [[7; 32], [9; 32]].concat());
        let point = |form: u8, rest: &[u8]| [&[form], rest].concat();
        let ml_dsa = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.18");
        let encodings = [
            vec![
                info(RSA, NULL, 0, &rsa(&[0, 0xc1, 5], 3)),
                info(RSA, &[], 0, &rsa(&[0, 0xc1, 5], 3)),
                info(PSS, &[], 0, &rsa(&[0, 0xc1, 5], 3)),
            ],
            vec![
                info(EC, &curve, 0, &point(4, &even)),
                info(EC, &curve, 0, &point(2, &[7; 32])),
                info(EC, &curve, 0, &point(6, &even)),
            ],
            vec![
                info(ED25519, &[], 0, &[6; 32]),
                info(ED25519, NULL, 0, &[6; 32]),
                info(ED25519, &curve, 0, &[6; 32]),
                info(ED25519, &[], 1, &[6; 32]),
            ],
            vec![info(ml_dsa, &[], 0, &[6; 1952]), info(ml_dsa, NULL, 0, &[6; 1952])],
        ];
        for kind in &encodings {
            assert!(kind.iter().all(|one| identity(one) == identity(&kind[0])));
            assert!(kind.iter().all(|one| secret_identity(one) == secret_identity(&kind[0])));
        }
        let others = [
            info(RSA, NULL, 0, &rsa(&[0, 0, 0xc1, 5], 5)),
            info(EC, &curve, 0, &point(4, &odd)),
            info(ED25519, &[], 0, &[&[6; 31][..], &[0x86]].concat()),
        ];
        for (other, kind) in others.iter().zip(&encodings) {
            assert_ne!(identity(other), identity(&kind[0]));
            assert_eq!(secret_identity(other), secret_identity(&kind[0]));
        }
        // A composite has the secrets of both components, in each encoding.
        let composite = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.6.45");
        let ml_dsa = [6; 1952];
        for (at, point) in [(0, point(4, &even)), (1, point(2, &[7; 32]))] {
            let both = secret_identities(&info(composite, &[], 0, &[&ml_dsa[..], &point].concat()));
            assert_eq!(both, [secret_identity(&encodings[3][at]), secret_identity(&encodings[1][at])]);
        }
        assert_eq!(secret_identities(&encodings[0][0]), [secret_identity(&encodings[0][0])]);
        let firsts: std::collections::BTreeSet<_> =
            encodings.iter().map(|kind| secret_identity(&kind[0])).collect();
        assert_eq!(firsts.len(), encodings.len());
    }

    #[test]
    fn a_composite_key_has_the_secrets_of_both_components() {
        let ml_dsa = |last: u8| ObjectIdentifier::new_unwrap(&format!("2.16.840.1.101.3.4.3.{last}"));
        let composite = |last: u8| ObjectIdentifier::new_unwrap(&format!("1.3.6.1.5.5.7.6.{last}"));
        let curve = |name| ber::encode(OID, &[ObjectIdentifier::new_unwrap(name).as_bytes()]);
        let (p256, p384) = (curve("1.2.840.10045.3.1.7"), curve("1.3.132.0.34"));
        let modulus = ber::encode(SEQUENCE, &[&[INTEGER, 1, 35], &[INTEGER, 1, 3]]);
        let small = [&[4][..], &[7; 64]].concat();
        let large = [&[4][..], &[7; 96]].concat();
        let rows = [
            (39, 17, 1312, &[6; 32][..], info(ED25519, &[], 0, &[6; 32])),
            (40, 17, 1312, &small[..], info(EC, &p256, 0, &small)),
            (41, 18, 1952, &modulus[..], info(RSA, NULL, 0, &modulus)),
            (42, 18, 1952, &modulus[..], info(RSA, NULL, 0, &modulus)),
            (45, 18, 1952, &small[..], info(EC, &p256, 0, &small)),
            (46, 18, 1952, &large[..], info(EC, &p384, 0, &large)),
            (48, 18, 1952, &[6; 32][..], info(ED25519, &[], 0, &[6; 32])),
            (49, 19, 2592, &large[..], info(EC, &p384, 0, &large)),
        ];
        for (number, first, length, second, alone) in rows {
            let first = (info(ml_dsa(first), &[], 0, &vec![9; length]), vec![9; length]);
            let whole = info(composite(number), &[], 0, &[&first.1[..], second].concat());
            let expected = [secret_identity(&first.0), secret_identity(&alone)];
            assert_eq!(secret_identities(&whole), expected, "{number}");
            assert_eq!(secret_identities(&alone), expected[1..], "{number}");
            let short = info(composite(number), &[], 0, &first.1[1..]);
            assert_eq!(secret_identities(&short), [SecretIdentity::Other(identity(&short))]);
        }
    }
}
