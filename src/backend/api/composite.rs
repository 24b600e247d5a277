//! The composite ML-DSA algorithms (draft-ietf-lamps-pq-composite-sigs, 6): one row each. A
//! composite key is a key of ML-DSA and a key of a traditional algorithm that never work alone.

use jeton_words::hash::Hash;

use super::algorithm::{Curve, MlDsa};

/// A composite algorithm.
#[derive(Debug, PartialEq, Eq)]
pub struct Composite {
    /// The last number of its object identifier, which begins with 1.3.6.1.5.5.7.6.
    pub number: u32,
    /// The parameter set of the first component.
    pub ml_dsa: MlDsa,
    /// The second component.
    pub traditional: Traditional,
    /// The hash function of the message.
    pub prehash: Hash,
    /// The label: a part of what both components sign, and the context of ML-DSA.
    pub label: &'static str,
}

/// The traditional component of a composite algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traditional {
    /// RSASSA-PKCS1-v1_5 with a modulus of this number of bits, and SHA-256.
    RsaPkcs1(usize),
    /// RSASSA-PSS with a modulus of this number of bits, SHA-256 and a salt of 32 bytes.
    RsaPss(usize),
    /// ECDSA with SHA-256 on P-256, and with SHA-384 on P-384.
    Ecdsa(Curve),
    /// Ed25519.
    Ed25519,
}

impl Composite {
    /// The algorithms whose components both backends have.
    pub const ALL: [Self; 8] = {
        use Hash::{Sha256, Sha512};
        use MlDsa::{MlDsa44, MlDsa65, MlDsa87};
        use Traditional::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
        [
            row(39, MlDsa44, Ed25519, Sha512, "COMPSIG-MLDSA44-Ed25519-SHA512"),
            row(40, MlDsa44, Ecdsa(Curve::P256), Sha256, "COMPSIG-MLDSA44-ECDSA-P256-SHA256"),
            row(41, MlDsa65, RsaPss(3072), Sha512, "COMPSIG-MLDSA65-RSA3072-PSS-SHA512"),
            row(42, MlDsa65, RsaPkcs1(3072), Sha512, "COMPSIG-MLDSA65-RSA3072-PKCS15-SHA512"),
            row(45, MlDsa65, Ecdsa(Curve::P256), Sha512, "COMPSIG-MLDSA65-ECDSA-P256-SHA512"),
            row(46, MlDsa65, Ecdsa(Curve::P384), Sha512, "COMPSIG-MLDSA65-ECDSA-P384-SHA512"),
            row(48, MlDsa65, Ed25519, Sha512, "COMPSIG-MLDSA65-Ed25519-SHA512"),
            row(49, MlDsa87, Ecdsa(Curve::P384), Sha512, "COMPSIG-MLDSA87-ECDSA-P384-SHA512"),
        ]
    };

    /// Returns the algorithm with this number.
    pub fn numbered(number: u64) -> Option<&'static Self> {
        const { &Self::ALL }.iter().find(|row| u64::from(row.number) == number)
    }
}

const fn row(
    number: u32,
    ml_dsa: MlDsa,
    traditional: Traditional,
    prehash: Hash,
    label: &'static str,
) -> Composite {
    Composite { number, ml_dsa, traditional, prehash, label }
}
