//! The rules of the policy *strict*: the uses that it refuses although PKCS#11 allows them, with
//! the reasons.
//!
//! The tables here are data. `object::strict` applies them to objects.
//! [`Settings::does`](super::Settings::does), [`Settings::sizes`](super::Settings::sizes) and
//! [`check_parameter`] apply them to mechanisms.
//! Sources: Clulow, "On the security of PKCS#11" (2003); Delaune, Kremer, Steel, "Formal analysis
//! of PKCS#11" (2008); Bortolozzo, Centenaro, Focardi, Steel, "Attacking and fixing PKCS#11
//! security tokens" (2010); NIST SP 800-38C, -38D, -57, -131A; FIPS 186-5.

use crate::backend::{AeadScheme, CipherMode, CipherScheme, Hash};
use crate::error::Result;
use crate::id::{AttributeType as A, KeyType, mechanism_flag as does};
use crate::mechanism::field;
use crate::mechanism::flow::{CODE, GCM_TAG, Sizes, Wrapping, is_block_cipher};
use crate::mechanism::{Action, Derivation, MacFunction, Mechanism, MechanismRow, Params, Primitive, row_of};

/// The roles of keys. A key, or a pair, has the usages of at most one role (NIST SP 800-57, 5.2: a
/// key has one purpose), and so have all keys with the same value. Each pair of roles allows an
/// attack:
///
/// | roles | attack |
/// | --- | --- |
/// | wrap, cipher | `C_Decrypt` opens what `C_WrapKey` wrapped (Clulow) |
/// | unwrap, cipher | `C_Encrypt` makes a wrapped key with a known value (Delaune) |
/// | sign, cipher | an RSA decryption is a signature; a CBC encryption is a CMAC |
/// | sign, wrap | an RSA unwrapping is a signature; a wrapping is an encryption, and so a CMAC |
/// | derive, cipher | `CKM_AES_ECB_ENCRYPT_DATA` derives a key whose value `C_Encrypt` returns |
/// | derive, sign | HKDF and SP 800-108 derive keys whose values `C_Sign` returns |
/// | derive, wrap | a wrapping is an encryption, and so returns the value of a derived key |
/// | encapsulate, any other | the attacks of derive: a decapsulation is a derivation |
pub const ROLES: [Role; 5] = [
    Role { name: "cipher", usages: &[A::ENCRYPT, A::DECRYPT] },
    Role { name: "wrap", usages: &[A::WRAP, A::UNWRAP] },
    Role { name: "sign", usages: &[A::SIGN, A::SIGN_RECOVER, A::VERIFY, A::VERIFY_RECOVER] },
    Role { name: "derive", usages: &[A::DERIVE] },
    Role { name: "encapsulate", usages: &[A::ENCAPSULATE, A::DECAPSULATE] },
];

/// The template attributes that are a part of the role of a key: they decide about the roles of the
/// keys that it makes.
pub const TEMPLATES: [A; 3] = [A::UNWRAP_TEMPLATE, A::DERIVE_TEMPLATE, A::DECAPSULATE_TEMPLATE];

/// The smallest RSA modulus in bits (SP 800-131A: 112 bits of security), for keys that are
/// generated, imported or used.
pub const RSA_BITS: u64 = 2048;
/// The smallest public exponent of RSA (FIPS 186-5, A.1.1: more than 2^16).
pub const RSA_EXPONENT: u64 = 65537;
/// The smallest Diffie-Hellman prime in bits (SP 800-131A).
pub const DH_BITS: u64 = 2048;
/// The shortest secret key in bytes (SP 800-131A: 112 bits).
pub const SECRET_LEN: usize = 14;
/// The shortest initialisation vector of GCM in bytes. Shorter random vectors soon repeat, which
/// reveals the authentication key (SP 800-38D, 5.2.1.1 and appendix A).
pub const GCM_IV: usize = 12;
/// The shortest PIN in bytes.
pub const PIN: usize = 8;

/// A role: usages that one key may have together.
pub struct Role {
    /// The name in log lines.
    pub name: &'static str,
    /// The usage attributes of keys.
    pub usages: &'static [A],
}

/// Returns the names of the roles that these usages belong to.
pub fn roles(has: impl Fn(A) -> bool) -> impl Iterator<Item = &'static str> {
    ROLES.iter().filter(move |role| role.usages.iter().any(|id| has(*id))).map(|role| role.name)
}

/// Returns the functions (`CKF_*`) that this policy refuses to a mechanism. A mechanism without any
/// remaining function is not offered.
pub fn refused(mechanism: &MechanismRow) -> u64 {
    const ALL: u64 = u64::MAX;
    const WRAPS: u64 = does::WRAP | does::UNWRAP;
    // These reveal parts of keys, or make related keys (Clulow).
    if mechanism.inputs(&Params::None, Sizes::default()).is_some_and(|inputs| inputs.copies()) {
        return ALL;
    }
    match mechanism.action {
        // Without padding RSA is a bare computation: a decryption is a signature, and anyone can
        // compute the root of a small number, such as a short wrapped key.
        Action::Sign(Primitive::RsaRaw, _) => ALL,
        // PKCS#1 v1.5 encryption: Bleichenbacher 1998; Bardou et al. 2012. Encryption remains
        // allowed for recipients that need it.
        Action::Sign(Primitive::RsaPkcs1, None) => {
            does::DECRYPT | WRAPS | does::ENCAPSULATE | does::DECAPSULATE
        }
        // SP 800-131A forbids signatures with SHA-1. HMAC and OAEP do not need the collision
        // resistance that SHA-1 lacks, so they remain allowed.
        Action::Sign(_, Some(Hash::Sha1)) => ALL,
        // SP 800-131A forbids encryption with triple DES.
        Action::Cipher(CipherMode::Des3Ecb | CipherMode::Des3Cbc | CipherMode::Des3CbcPad) => ALL,
        // Modes without authentication accept any bytes as a key, reveal parts of keys, or reveal
        // the padding (Clulow: key conjuring; Bardou et al. 2012).
        Action::Cipher(_) if mechanism.wrapping(&Params::None) == Some(Wrapping::Unauthenticated) => WRAPS,
        // A private key that unwraps by OAEP opens the head of what CKM_RSA_AES_KEY_WRAP wrapped.
        Action::Encrypt(_) if mechanism.opens_heads() => WRAPS,
        // The caller gets bytes that are computed from a key, which may be sensitive.
        Action::Derive(Derivation::TlsPrf) => ALL,
        // The caller chooses the length of the code.
        Action::Mac(MacFunction::TlsPrf) => ALL,
        _ => 0,
    }
}

/// Returns the smallest key size of a mechanism whose key sizes are the bits of an integer (RSA,
/// Diffie-Hellman); 0 for the others.
pub fn least_size(mechanism: &MechanismRow) -> u64 {
    match mechanism.key_type {
        Some(KeyType::RSA) => RSA_BITS,
        Some(KeyType::DH) => DH_BITS,
        _ => 0,
    }
}

/// Fails with `MechanismParamInvalid` if the parameter is too weak: SHA-1 in PSS, a short tag or
/// MAC, a short initialisation vector.
pub fn check_parameter(mechanism: &Mechanism) -> Result<()> {
    let good = match (row_of(mechanism.info).action, &mechanism.params) {
        (Action::Sign(_, _), Params::Pss { hash, mgf, .. }) => *hash != Hash::Sha1 && *mgf != Hash::Sha1,
        (_, Params::Cipher(CipherScheme::Aead { cipher, nonce, tag_len, .. })) => {
            return check_aead(*cipher, nonce.len(), *tag_len);
        }
        (Action::Mac(_), Params::Length(len)) => *len >= CODE,
        // With a key that also enciphers, C_Encrypt returns what these derive. Other derivations by
        // a block cipher take only keys of ciphers, which do not derive if a key made them.
        (_, Params::IkePrf { prf, .. } | Params::Ike1Prf { prf, .. }) => !is_block_cipher(*prf),
        (_, Params::Ike1Extended { prf, .. } | Params::Ike2PrfPlus { prf, .. }) => !is_block_cipher(*prf),
        _ => true,
    };
    let refused = || match &mechanism.params {
        Params::Pss { .. } => field::refused("hashAlg, mgf (policy strict)"),
        Params::Length(_) => field::refused("CK_MAC_GENERAL_PARAMS (policy strict)"),
        _ => field::refused("prfMechanism (policy strict)"),
    };
    if good { Ok(()) } else { Err(refused()) }
}

/// Fails with `MechanismParamInvalid` if an authenticated cipher has a short tag or a short nonce.
pub fn check_aead(scheme: AeadScheme, nonce_len: usize, tag_len: usize) -> Result<()> {
    let good = match scheme {
        AeadScheme::AesGcm => tag_len >= GCM_TAG && nonce_len >= GCM_IV,
        _ => tag_len >= CODE,
    };
    if good { Ok(()) } else { Err(field::refused("the lengths of the tag and the nonce (policy strict)")) }
}
