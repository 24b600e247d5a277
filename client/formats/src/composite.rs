//! The components of the public keys of composite ML-DSA (draft-ietf-lamps-pq-composite-sigs), also
//! of algorithms that the token does not have.

use der::asn1::ObjectIdentifier;

use crate::algorithms::{EC, ED448, ED25519, NULL, RSA};
use crate::ber::{self, BIT_STRING, OID, SEQUENCE};

/// The identifiers of all composites, without their last number: 1.3.6.1.5.5.7.6.
const COMPOSITES: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 6];
/// The identifiers of ML-DSA, without their last number: 2.16.840.1.101.3.4.3.
const ML_DSA: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3];

/// The second component of a composite.
enum Traditional {
    Rsa,
    Ecdsa(&'static str),
    Edwards(ObjectIdentifier),
}

/// Returns the public keys of the components of a composite, as SubjectPublicKeyInfo. `None` if the
/// key is no composite.
pub(crate) fn components(info: &[u8]) -> Option<[Vec<u8>; 2]> {
    let [algorithm, key] = ber::members(info, SEQUENCE)?[..] else { return None };
    let (oid, _) = ber::first(algorithm.content)?;
    let (number, family) = oid.content.split_last()?;
    let (set, traditional) = row(*number).filter(|_| family == COMPOSITES)?;
    let length = match set {
        17 => 1312,
        18 => 1952,
        _ => 2592,
    };
    let (first, second) = key.content.get(1..)?.split_at_checked(length)?;
    let second = match traditional {
        Traditional::Rsa => info_of(RSA.as_bytes(), NULL, second),
        Traditional::Ecdsa(curve) => {
            let curve = ber::encode(OID, &[ObjectIdentifier::new_unwrap(curve).as_bytes()]);
            info_of(EC.as_bytes(), &curve, second)
        }
        Traditional::Edwards(curve) => info_of(curve.as_bytes(), &[], second),
    };
    Some([info_of(&[ML_DSA, &[set]].concat(), &[], first), second])
}

/// Returns the last number of the identifier of ML-DSA and the other algorithm, by the last number
/// of the composite.
fn row(number: u8) -> Option<(u8, Traditional)> {
    use Traditional::{Ecdsa, Edwards, Rsa};
    const P256: Traditional = Ecdsa("1.2.840.10045.3.1.7");
    const P384: Traditional = Ecdsa("1.3.132.0.34");
    const P521: Traditional = Ecdsa("1.3.132.0.35");
    Some(match number {
        37 | 38 => (17, Rsa),
        39 => (17, Edwards(ED25519)),
        40 => (17, P256),
        41..=44 => (18, Rsa),
        45 => (18, P256),
        46 => (18, P384),
        47 => (18, Ecdsa("1.3.36.3.3.2.8.1.1.7")),
        48 => (18, Edwards(ED25519)),
        49 => (19, P384),
        50 => (19, Ecdsa("1.3.36.3.3.2.8.1.1.11")),
        51 => (19, Edwards(ED448)),
        52 | 53 => (19, Rsa),
        54 => (19, P521),
        _ => return None,
    })
}

fn info_of(algorithm: &[u8], parameters: &[u8], key: &[u8]) -> Vec<u8> {
    let algorithm = ber::encode(SEQUENCE, &[&ber::encode(OID, &[algorithm]), parameters]);
    ber::encode(SEQUENCE, &[&algorithm, &ber::encode(BIT_STRING, &[&[0], key])]).to_vec()
}
