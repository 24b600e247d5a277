//! What the build with AWS-LC FIPS 3.1.0 has, and which of its services are approved
//! (docs/fips.md).
//!
//! A service is approved if the validated module computes all of it. What Jeton itself builds from
//! ciphers and hashes is not: HKDF and the other key derivations, key wrapping, OAEP. Sources: the
//! security policy of certificate 5314 with the service indicator of its module, and the clauses
//! below.

pub use super::strict::{RSA_BITS, SECRET_LEN};
use crate::backend::{AeadScheme, CipherMode, CipherScheme, Curve, Hash, Scheme};
use crate::error::Result;
use crate::id::{KeyType, mechanism_flag as does};
use crate::mechanism::curve::{Group, NamedCurve};
use crate::mechanism::field;
use crate::mechanism::{Action, Derivation, MacFunction, Mechanism, MechanismRow, Params, Primitive};

/// The flags of `CK_MECHANISM_INFO` that name functions. The others describe curves.
const FUNCTIONS: u64 = (does::EC_F_P - 1) | does::ENCAPSULATE | does::DECAPSULATE;
const VERIFIES: u64 = does::VERIFY | does::MESSAGE_VERIFY | does::MULTI_MESSAGE;
const SIGNS: u64 = VERIFIES | does::SIGN | does::MESSAGE_SIGN;

/// Returns whether this build has the mechanism. RustCrypto has most of the others.
pub fn has(mechanism: &MechanismRow) -> bool {
    let is_absent = match mechanism.action {
        Action::Digest(hash) | Action::Derive(Derivation::HashOfKey(hash)) => hash.is_blake2b(),
        Action::Mac(MacFunction::Hmac(hash)) => !is_of_hmac(hash),
        // CVE-2026-3337: the time of a decryption reveals the tag.
        Action::Cipher(CipherMode::Aead(AeadScheme::AesCcm)) => true,
        _ => false,
    };
    !is_absent
        && !matches!(
            mechanism.key_type,
            Some(KeyType::ML_DSA | KeyType::SLH_DSA | KeyType::JETON_COMPOSITE_ML_DSA)
        )
}

/// Returns whether this build has the curve.
pub fn has_curve(curve: &NamedCurve) -> bool {
    match curve.group {
        Group::Ec(curve) => !curve.is_brainpool(),
        Group::Ed25519 | Group::X25519 => true,
        Group::Ed448 | Group::X448 => false,
    }
}

/// Returns whether keys on the curve are approved (SP 800-186, 3.2; FIPS 186-5, 7).
pub fn approves_curve(curve: &NamedCurve) -> bool {
    matches!(curve.group, Group::Ec(Curve::P224 | Curve::P256 | Curve::P384 | Curve::P521) | Group::Ed25519)
}

/// Returns the approved functions (`CKF_*`) of a mechanism.
pub fn approved(mechanism: &MechanismRow) -> u64 {
    use Primitive as P;
    let functions = match mechanism.action {
        // FIPS 180-4, FIPS 202.
        Action::Digest(hash) if !hash.is_blake2b() => does::DIGEST,
        // FIPS 198-1; SP 800-38B.
        Action::Mac(MacFunction::Hmac(_) | MacFunction::AesCmac) if has(mechanism) => SIGNS,
        // SP 800-38A; SP 800-38E. SP 800-38F does not let these modes wrap keys.
        Action::Cipher(
            CipherMode::AesEcb
            | CipherMode::AesCbc
            | CipherMode::AesCbcPad
            | CipherMode::AesCtr
            | CipherMode::AesXts,
        ) => does::ENCRYPT | does::DECRYPT,
        // SP 800-38D, 8.2: only a nonce of the module may encrypt, and PKCS#11 passes one.
        Action::Cipher(CipherMode::Aead(AeadScheme::AesGcm)) => does::DECRYPT,
        // SP 800-131A, 3: SHA-1 only verifies.
        Action::Sign(P::RsaPkcs1 | P::RsaPss | P::Digest(Scheme::Ecdsa), Some(Hash::Sha1)) => VERIFIES,
        // FIPS 186-5, 5 and 6. Without a hash, the caller's digest is not the module's.
        Action::Sign(P::RsaPkcs1 | P::RsaPss | P::Digest(Scheme::Ecdsa), Some(_)) => SIGNS,
        // FIPS 186-5, 7.
        Action::Sign(P::Eddsa, None) => SIGNS,
        // SP 800-133, 4: the output of the module's generator.
        Action::Generate => match mechanism.key_type {
            Some(KeyType::DES3 | KeyType::CHACHA20) => 0,
            _ => does::GENERATE,
        },
        // FIPS 186-5, A.1 and A.2; FIPS 203, 7.1.
        Action::GeneratePair => match mechanism.key_type {
            Some(KeyType::RSA | KeyType::EC | KeyType::EC_EDWARDS | KeyType::ML_KEM) => {
                does::GENERATE_KEY_PAIR
            }
            _ => 0,
        },
        // SP 800-56A, 5.7.1.2, without a KDF: `approves_parameter`.
        Action::Derive(Derivation::Ecdh) => does::DERIVE,
        // FIPS 203, 7.2 and 7.3.
        Action::Encapsulate => does::ENCAPSULATE | does::DECAPSULATE,
        // SP 800-132, 5.
        Action::GenerateFromPassword => does::GENERATE,
        _ => 0,
    };
    mechanism.flags & functions
}

/// Returns the flags of a mechanism that `fips = "enforce"` leaves.
pub fn left(mechanism: &MechanismRow) -> u64 {
    match approved(mechanism) {
        0 => 0,
        functions => functions | !FUNCTIONS,
    }
}

/// Fails with `MechanismParamInvalid` if the parameter is not approved.
pub fn check_parameter(mechanism: &Mechanism) -> Result<()> {
    let good = match &mechanism.params {
        // FIPS 186-5, 5.4: the salt is at most as long as the hash. The module's tests cover this
        // length alone, with one hash.
        Params::Pss { hash, mgf, salt_len } => mgf == hash && *salt_len == hash.len(),
        // Without a parameter it is pure Ed25519, which is all that the module has.
        Params::Eddsa { .. } => false,
        Params::Ecdh { kdf, .. } => kdf.is_none(),
        // SP 800-132, 5.1 and 5.2; a password has 112 bits at least.
        Params::Pbkdf2 { hash, salt, iterations, password } => {
            is_of_hmac(*hash) && salt.len() >= 16 && *iterations >= 1000 && password.0.len() >= SECRET_LEN
        }
        // SP 800-38D, 5.2.1.2: a tag has 96 bits at least, but in two applications.
        Params::Cipher(CipherScheme::Aead { tag_len, .. }) => *tag_len >= 12,
        // SP 800-107, 5.3.3: a MAC has 32 bits at least.
        Params::Length(len) => *len >= 4,
        _ => true,
    };
    if good { Ok(()) } else { Err(field::refused("a field that no approved service has (docs/fips.md)")) }
}

/// Returns whether a secret key of this length in bytes may be used. The module has no AES-192 in
/// CMAC and GCM, and no AES-128 in XTS.
pub fn approves_len(mechanism: &MechanismRow, len: usize) -> bool {
    match mechanism.action {
        Action::Mac(MacFunction::AesCmac) | Action::Cipher(CipherMode::Aead(_)) => len != 24,
        Action::Cipher(CipherMode::AesXts) => len == 64,
        _ => len >= SECRET_LEN,
    }
}

/// Returns whether the module has HMAC with this hash: SHA-1 and SHA-2.
fn is_of_hmac(hash: Hash) -> bool {
    use Hash as H;
    matches!(hash, H::Sha1 | H::Sha224 | H::Sha256 | H::Sha384 | H::Sha512 | H::Sha512_224 | H::Sha512_256)
}
