//! Converts a mechanism and its parameter into the scheme that a backend computes.
//!
//! Each function fails with `MechanismInvalid` if it does not serve the row's [`Action`]. It fails
//! with `MechanismParamInvalid` if the parameter does not fit the row.

use super::{Action, Asymmetric, MacFunction, Mechanism, Params, Primitive, field, row_of};
use crate::backend::{CipherScheme, Encryption, Hash, MacScheme, Scheme};
use crate::error::{Error, Result};

/// The curve of an EdDSA key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdwardsCurve {
    /// The curve of Ed25519.
    Edwards25519,
    /// The curve of Ed448.
    Edwards448,
}

/// A message authentication code and the length of its output.
pub struct MacRequest {
    /// The scheme.
    pub scheme: MacScheme,
    /// The length in bytes to which the output is truncated. `None` keeps all of it.
    pub len: Option<usize>,
}

/// Returns the signature scheme, and the hash that the token applies to the message first.
/// The curve of the key decides between the EdDSA schemes.
pub fn signature(mechanism: &Mechanism, curve: EdwardsCurve) -> Result<(Scheme, Option<Hash>)> {
    let Action::Sign(primitive, hash) = row_of(mechanism.info).action else {
        return Err(Error::MechanismInvalid);
    };
    let scheme = match (primitive, &mechanism.params) {
        (Primitive::RsaRaw, Params::None) => Scheme::RsaRaw,
        (Primitive::RsaPkcs1, Params::None) => Scheme::RsaPkcs1 { hash },
        (Primitive::RsaPss, Params::Pss { hash: named, mgf, salt_len })
            if hash.is_none_or(|own| own == *named) =>
        {
            Scheme::RsaPss { hash: *named, mgf: *mgf, salt_len: *salt_len }
        }
        (Primitive::Digest(scheme), Params::None) => scheme.clone(),
        (Primitive::Stateful(family), Params::None) => Scheme::Stateful(family),
        (Primitive::Eddsa, params) => return eddsa(params, curve),
        (primitive, params) => return post_quantum(primitive, hash, params),
    };
    Ok((scheme, hash))
}

/// Returns the cipher scheme. Fails with `MechanismParamInvalid` if the parameter has the
/// scheme of another mechanism.
pub fn cipher(mechanism: &Mechanism) -> Result<&CipherScheme> {
    match (row_of(mechanism.info).action, &mechanism.params) {
        (Action::Cipher(mode), Params::Cipher(scheme)) if scheme.mode() == mode => Ok(scheme),
        (Action::Cipher(_), _) => Err(Error::MechanismParamInvalid),
        _ => Err(Error::MechanismInvalid),
    }
}

/// Returns the scheme of an RSA encryption. For `CKM_RSA_AES_KEY_WRAP` it is the OAEP part; the
/// caller does the rest.
pub fn encryption(mechanism: &Mechanism) -> Result<Encryption> {
    Ok(match (row_of(mechanism.info).action, &mechanism.params) {
        (Action::Sign(Primitive::RsaRaw, None), Params::None) => Encryption::Raw,
        (Action::Sign(Primitive::RsaPkcs1, None), Params::None) => Encryption::Pkcs1,
        (Action::Encrypt(Asymmetric::Oaep), Params::Oaep { hash, mgf, label })
        | (Action::Encrypt(Asymmetric::AesWrap), Params::RsaAesWrap { hash, mgf, label, .. }) => {
            Encryption::Oaep { hash: *hash, mgf: *mgf, label: label.clone() }
        }
        (Action::Encrypt(_), _) => return Err(Error::MechanismParamInvalid),
        _ => return Err(Error::MechanismInvalid),
    })
}

/// Returns the scheme of a message authentication code.
pub fn mac(mechanism: &Mechanism) -> Result<MacRequest> {
    let Action::Mac(function) = row_of(mechanism.info).action else { return Err(Error::MechanismInvalid) };
    let len = match &mechanism.params {
        Params::Length(len) => Some(*len),
        _ => None,
    };
    let (scheme, len) = match (function, &mechanism.params) {
        (MacFunction::AesGmac, Params::Gmac { iv, tag_len }) => {
            (MacScheme::AesGmac { iv: iv.clone() }, Some(*tag_len))
        }
        (MacFunction::Hmac(hash), Params::None | Params::Length(_)) => (MacScheme::Hmac(hash), len),
        (MacFunction::AesCmac, Params::None | Params::Length(_)) => (MacScheme::AesCmac, len),
        // PKCS#11 3.2, "AES-MAC": half a block, as FIPS 113 defines it.
        (MacFunction::AesCbcMac, Params::None) => (MacScheme::AesCbcMac, Some(8)),
        (MacFunction::AesCbcMac, Params::Length(_)) => (MacScheme::AesCbcMac, len),
        (MacFunction::AesXcbc(own), Params::None) => (MacScheme::AesXcbc, Some(own)),
        // The MACs of TLS get here only with a wrong parameter: the layer above the backend
        // computes them.
        _ => return Err(Error::MechanismParamInvalid),
    };
    Ok(MacRequest { scheme, len })
}

fn post_quantum(primitive: Primitive, row: Option<Hash>, params: &Params) -> Result<(Scheme, Option<Hash>)> {
    let (deterministic, context, named) = match params {
        Params::None => (false, Box::default(), None),
        Params::SignContext { deterministic, context, hash } => (*deterministic, context.clone(), *hash),
        _ => return Err(Error::MechanismParamInvalid),
    };
    let hash = row.or(named);
    let scheme = match (primitive, hash) {
        (Primitive::MlDsa, None) | (Primitive::HashMlDsa, Some(_)) => {
            Scheme::MlDsa { hash, context, deterministic }
        }
        // PKCS#11 3.3, "ExternalMu-ML-DSA Signature": "ulContextLen will be zero". The mu has the
        // context.
        (Primitive::MlDsaMu, None) if context.is_empty() => Scheme::MlDsaMu { deterministic },
        (Primitive::Composite, None) => Scheme::Composite { context, deterministic },
        (Primitive::SlhDsa, None) | (Primitive::HashSlhDsa, Some(_)) => {
            Scheme::SlhDsa { hash, context, deterministic }
        }
        _ => return Err(field::refused("hash, ulContextLen")),
    };
    Ok((scheme, row))
}

/// Returns the EdDSA scheme (PKCS#11 3.2, table "Mapping to RFC 8032 signature schemes"). The token
/// hashes the message of the `ph` forms.
fn eddsa(params: &Params, curve: EdwardsCurve) -> Result<(Scheme, Option<Hash>)> {
    let (prehash, context) = match params {
        Params::None => (false, Box::default()),
        Params::Eddsa { prehash, context } => (*prehash, context.clone()),
        _ => return Err(Error::MechanismParamInvalid),
    };
    Ok(match (curve, prehash) {
        (EdwardsCurve::Edwards448, prehash) => {
            (Scheme::Ed448 { prehash, context }, prehash.then_some(Hash::Shake256))
        }
        (EdwardsCurve::Edwards25519, true) => {
            (Scheme::Ed25519Context { prehash, context }, Some(Hash::Sha512))
        }
        (EdwardsCurve::Edwards25519, false) if *params == Params::None => (Scheme::Ed25519, None),
        (EdwardsCurve::Edwards25519, false) => (Scheme::Ed25519Context { prehash, context }, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MechanismType;

    #[test]
    fn a_pss_parameter_must_name_the_mechanism_hash() {
        let mechanism = crate::mechanism::find(MechanismType::SHA256_RSA_PKCS_PSS).expect("a row");
        let scheme = |params| {
            signature(&Mechanism { info: mechanism.word(), params }, EdwardsCurve::Edwards25519).err()
        };
        let pss = |hash| Params::Pss { hash, mgf: Hash::Sha1, salt_len: 0 };
        assert_eq!(scheme(pss(Hash::Sha256)), None);
        assert_eq!(scheme(pss(Hash::Sha384)), Some(Error::MechanismParamInvalid));
        assert_eq!(scheme(Params::None), Some(Error::MechanismParamInvalid));
    }
}
