//! The rules of the policy *cnsa2*: the algorithms of NSA's Commercial National Security Algorithm
//! Suite 2.0, and no others. The rules of *strict* hold too.
//!
//! The tables here are data, as in [`super::strict`]. `object::cnsa2` applies [`KEYS`] to objects.
//! Sources: CNSSP 15, annex B; NSA, "CNSA 2.0 and Quantum Computing FAQ", version 2.1: no SLH-DSA,
//! no HashML-DSA, no signatures of several trees (HSS with several levels, XMSS^MT), and no SHA-3
//! as a hash.

use super::strict;
use crate::backend::{Hash, Stateful};
use crate::error::Result;
use crate::id::KeyType;
use crate::id::value::{ML_DSA_87, ML_KEM_1024};
use crate::mechanism::field;
use crate::mechanism::{Action, Derivation, MacFunction, Mechanism, MechanismRow, Params, Primitive};

/// What a key of the suite must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// Every key of the type.
    Any,
    /// Keys with this `CKA_PARAMETER_SET`.
    Set(u64),
    /// Keys with this `CKA_HSS_LEVELS`. HSS with one level is LMS.
    Levels(u64),
    /// Secret keys of exactly this number of bytes.
    Bytes(usize),
    /// Secret keys of at least this number of bytes.
    AtLeast(usize),
}

/// The types of keys of the suite.
pub const KEYS: [(KeyType, Strength); 10] = [
    (KeyType::ML_DSA, Strength::Set(ML_DSA_87)),
    (KeyType::ML_KEM, Strength::Set(ML_KEM_1024)),
    (KeyType::HSS, Strength::Levels(1)),
    // Only public keys.
    (KeyType::XMSS, Strength::Any),
    (KeyType::AES, Strength::Bytes(32)),
    // Two keys of 256 bits.
    (KeyType::AES_XTS, Strength::Bytes(64)),
    (KeyType::GENERIC_SECRET, Strength::AtLeast(32)),
    (KeyType::HKDF, Strength::AtLeast(32)),
    (KeyType::SHA384_HMAC, Strength::AtLeast(32)),
    (KeyType::SHA512_HMAC, Strength::AtLeast(32)),
];

/// Returns what a key of this type must be; `None` if the suite has no keys of the type.
pub fn strength(key_type: KeyType) -> Option<Strength> {
    KEYS.iter().find(|(known, _)| *known == key_type).map(|(_, strength)| *strength)
}

/// Returns the functions (`CKF_*`) that this policy refuses to a mechanism.
pub fn refused(mechanism: &MechanismRow) -> u64 {
    if is_in_suite(mechanism) { strict::refused(mechanism) } else { u64::MAX }
}

fn is_in_suite(mechanism: &MechanismRow) -> bool {
    let has_keys = mechanism.key_type.is_none_or(|key_type| strength(key_type).is_some());
    match mechanism.action {
        Action::Digest(hash)
        | Action::Mac(MacFunction::Hmac(hash))
        | Action::Derive(Derivation::HashOfKey(hash)) => is_hash(hash),
        Action::Mac(MacFunction::AesCmac | MacFunction::AesGmac) => true,
        Action::Sign(Primitive::MlDsa | Primitive::MlDsaMu, None) | Action::MlDsaMu => true,
        Action::Sign(Primitive::Stateful(family), _) => family != Stateful::XmssMt,
        Action::Cipher(_) | Action::Derive(Derivation::EncryptData(_)) => has_keys,
        Action::Derive(
            Derivation::Hkdf
            | Derivation::HkdfData
            | Derivation::Sp800_108(_)
            | Derivation::IkePrf
            | Derivation::Ike2PrfPlus
            | Derivation::PublicKey,
        ) => true,
        Action::Encapsulate | Action::Generate | Action::GeneratePair => has_keys,
        Action::GenerateFromPassword => true,
        _ => false,
    }
}

/// Returns the smallest and the largest key size of a mechanism, in the mechanism's units.
pub fn sizes(mechanism: &MechanismRow) -> (u64, u64) {
    let (least, most) = mechanism.sizes;
    match mechanism.key_type.and_then(strength) {
        // The parameter set or the length is the largest one.
        Some(Strength::Set(_) | Strength::Bytes(_)) => (most, most),
        _ => (least, most),
    }
}

/// Fails with `MechanismParamInvalid` if the parameter names a hash or a MAC that the suite lacks,
/// or if *strict* refuses it.
pub fn check_parameter(mechanism: &Mechanism) -> Result<()> {
    let good = match &mechanism.params {
        Params::Hkdf { hash, .. } | Params::Pbkdf2 { hash, .. } => is_hash(*hash),
        Params::Sp800_108 { prf, .. } | Params::IkePrf { prf, .. } | Params::Ike2PrfPlus { prf, .. } => {
            matches!(prf, MacFunction::AesCmac) || matches!(prf, MacFunction::Hmac(hash) if is_hash(*hash))
        }
        _ => true,
    };
    if good {
        strict::check_parameter(mechanism)
    } else {
        Err(field::refused("the hash or the PRF (policy cnsa2)"))
    }
}

/// CNSSP 15, annex B: "Use SHA-384 or SHA-512".
fn is_hash(hash: Hash) -> bool {
    matches!(hash, Hash::Sha384 | Hash::Sha512)
}
