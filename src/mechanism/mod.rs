//! The mechanisms: a row each. Lists, info, permission, dispatch and sizes read the row; a family is a file.

use crate::backend::{Curve, Hash, MlDsa, Scheme};
use crate::error::{Error, Result};
use crate::id::{KeyType, MechanismType};

mod digest;
mod ec;
mod ml_dsa;
mod rsa;
mod secret;

/// A mechanism.
pub struct Mechanism {
    /// Its number.
    pub id: MechanismType,
    /// What it does, as `CK_MECHANISM_INFO` says it (`CKF_*`).
    pub flags: u64,
    /// The smallest and largest key, in the unit that the specification names for the mechanism (bits for RSA and
    /// EC, bytes for AES, nothing for digests).
    pub sizes: (u64, u64),
    /// The type of the key that it works with or makes.
    pub key_type: Option<KeyType>,
    /// The parameter that it takes.
    pub shape: Shape,
    /// What is done.
    pub action: Action,
}

/// What a mechanism does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Digests a message.
    Digest(Hash),
    /// Signs and verifies; the hash is applied to the message first.
    Sign(Primitive, Option<Hash>),
    /// Makes a secret key of `key_type`.
    Generate,
    /// Makes a key pair of `key_type`.
    GeneratePair,
}

/// The signature primitive below a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the schemes'")]
pub enum Primitive {
    RsaRaw,
    RsaPkcs1,
    RsaPss,
    Ecdsa,
    Eddsa,
    MlDsa,
}

/// The form of a mechanism's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// No parameter.
    None,
    /// `CK_RSA_PKCS_PSS_PARAMS`.
    Pss,
    /// `CK_EDDSA_PARAMS`, or none.
    Eddsa,
    /// `CK_SIGN_ADDITIONAL_CONTEXT`, or none.
    SignContext,
}

/// A mechanism's parameter, parsed.
#[derive(Clone, PartialEq, Eq)]
pub enum Params {
    /// None was given.
    None,
    /// RSASSA-PSS.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of MGF1.
        mgf: Hash,
        /// Length of the salt in bytes.
        salt_len: usize,
    },
    /// EdDSA.
    Eddsa {
        /// `phFlag`: Ed25519ph.
        prehash: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
    },
    /// ML-DSA and SLH-DSA.
    SignContext {
        /// `CKH_DETERMINISTIC_REQUIRED`.
        deterministic: bool,
        /// The context, at most 255 bytes.
        context: Box<[u8]>,
    },
}

/// A mechanism with its parameter: what an `Init` function or a key generation is given.
#[derive(Clone)]
pub struct Invocation {
    /// The row.
    pub mechanism: &'static Mechanism,
    /// The parameter.
    pub params: Params,
}

impl PartialEq for Invocation {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.mechanism, other.mechanism) && self.params == other.params
    }
}

impl Invocation {
    /// How the backend signs, and the hash that the message goes through before. `MechanismInvalid` where the
    /// mechanism does not sign, `MechanismParamInvalid` where the parameter does not fit it.
    pub fn scheme(&self) -> Result<(Scheme, Option<Hash>)> {
        let Action::Sign(primitive, hash) = self.mechanism.action else {
            return Err(Error::MechanismInvalid);
        };
        let scheme = match (primitive, &self.params) {
            (Primitive::RsaRaw, Params::None) => Scheme::RsaRaw,
            (Primitive::RsaPkcs1, Params::None) => Scheme::RsaPkcs1 { hash },
            (Primitive::RsaPss, Params::Pss { hash: named, mgf, salt_len })
                if hash.is_none_or(|h| h == *named) =>
            {
                Scheme::RsaPss { hash: *named, mgf: *mgf, salt_len: *salt_len }
            }
            (Primitive::Ecdsa, Params::None) => Scheme::Ecdsa,
            (Primitive::Eddsa, Params::None) => Scheme::Ed25519,
            // PKCS#11 3.2, table "Mapping to RFC 8032": no prehash and no context is plain Ed25519.
            (Primitive::Eddsa, Params::Eddsa { prehash: false, context }) if context.is_empty() => {
                Scheme::Ed25519
            }
            (Primitive::MlDsa, Params::None) => {
                Scheme::MlDsa { context: Box::default(), deterministic: false }
            }
            (Primitive::MlDsa, Params::SignContext { deterministic, context }) => {
                Scheme::MlDsa { context: context.clone(), deterministic: *deterministic }
            }
            _ => return Err(Error::MechanismParamInvalid),
        };
        Ok((scheme, hash))
    }
}

/// The families, each sorted as it likes.
const FAMILIES: &[&[Mechanism]] = &[rsa::ROWS, ec::ROWS, ml_dsa::ROWS, secret::ROWS, digest::ROWS];

/// Every mechanism of this build.
pub fn all() -> impl Iterator<Item = &'static Mechanism> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The mechanism of that number.
pub fn find(id: MechanismType) -> Option<&'static Mechanism> {
    all().find(|mechanism| mechanism.id == id)
}

/// The hash that a digest mechanism computes, as parameters name it.
pub fn hash_named(id: MechanismType) -> Option<Hash> {
    match find(id)?.action {
        Action::Digest(hash) => Some(hash),
        _ => None,
    }
}

/// Object identifiers (content octets with tag and length) and names by which `CKA_EC_PARAMS` names a curve.
pub struct NamedCurve {
    /// The curve; `None` is Ed25519.
    pub curve: Option<Curve>,
    /// DER of the object identifier: the form that the token gives.
    pub oid: &'static [u8],
    /// The name as a printable string (PKCS#11 3.2, "Elliptic curve": `curveName`).
    pub name: &'static str,
}

/// The curves that `CKA_EC_PARAMS` may name.
pub use ec::NAMED_CURVES;

/// The parameter set of ML-DSA that `CKA_PARAMETER_SET` names.
pub fn ml_dsa_set(number: u64) -> Option<MlDsa> {
    MlDsa::ALL.into_iter().find(|set| ml_dsa::number(*set) == number)
}

/// The number by which `CKA_PARAMETER_SET` names a parameter set of ML-DSA.
pub fn ml_dsa_number(set: MlDsa) -> u64 {
    ml_dsa::number(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_stands_twice() {
        let mut ids: Vec<_> = all().map(|mechanism| mechanism.id).collect();
        let rows = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rows);
    }

    #[test]
    fn every_row_has_a_name_and_a_sensible_size_range() {
        for mechanism in all() {
            assert!(mechanism.id.name().is_some());
            assert!(mechanism.sizes.0 <= mechanism.sizes.1, "{}", mechanism.id);
        }
    }

    #[test]
    fn a_pss_parameter_must_name_the_mechanism_hash() {
        let mechanism = find(MechanismType::SHA256_RSA_PKCS_PSS).expect("a row");
        let params = |hash| Params::Pss { hash, mgf: Hash::Sha1, salt_len: 0 };
        assert!(Invocation { mechanism, params: params(Hash::Sha256) }.scheme().is_ok());
        let wrong = Invocation { mechanism, params: params(Hash::Sha384) }.scheme();
        assert_eq!(wrong.err(), Some(Error::MechanismParamInvalid));
        assert_eq!(
            Invocation { mechanism, params: Params::None }.scheme().err(),
            Some(Error::MechanismParamInvalid)
        );
    }
}
