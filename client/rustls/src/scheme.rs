//! The signature schemes of TLS, one row each, with their PKCS#11 mechanisms.

use cryptoki_sys::*;
use jeton_client::{Mechanism, key_types};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// The type of a key, with the parameters that determine its schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
    /// ML-DSA with this `CKA_PARAMETER_SET`.
    MlDsa(CK_ULONG),
}

impl KeyType {
    /// Returns the algorithm by which rustls selects the cipher suites of TLS 1.2. ML-DSA has no
    /// such suite.
    pub(crate) fn algorithm(self) -> SignatureAlgorithm {
        match self {
            Self::Rsa => SignatureAlgorithm::RSA,
            Self::P256 | Self::P384 | Self::P521 => SignatureAlgorithm::ECDSA,
            Self::Ed25519 => SignatureAlgorithm::ED25519,
            Self::MlDsa(_) => SignatureAlgorithm::Unknown(0),
        }
    }

    /// Returns the type of an EC key, from its `CKA_EC_PARAMS`.
    pub(crate) fn of_curve(params: &[u8]) -> Option<Self> {
        match params {
            key_types::P256 => Some(Self::P256),
            key_types::P384 => Some(Self::P384),
            key_types::P521 => Some(Self::P521),
            // PKCS#11 3.0 allows the name, too.
            key_types::ED25519 | b"\x13\x0cedwards25519" => Some(Self::Ed25519),
            _ => None,
        }
    }
}

/// A signature scheme.
pub(crate) struct Row {
    pub(crate) scheme: SignatureScheme,
    pub(crate) key: KeyType,
    /// The mechanism that signs the message.
    mechanism: CK_MECHANISM_TYPE,
    /// The parameters of PSS: hash, MGF and length of the salt.
    pss: Option<[CK_ULONG; 3]>,
    on_digest: Option<(CK_MECHANISM_TYPE, CK_MECHANISM_TYPE)>,
}

/// All schemes. For each key type they are in the order of preference of rustls.
pub(crate) const SCHEMES: [Row; 13] = [
    pss(SignatureScheme::RSA_PSS_SHA512, CKM_SHA512_RSA_PKCS_PSS, [CKM_SHA512, CKG_MGF1_SHA512, 64]),
    pss(SignatureScheme::RSA_PSS_SHA384, CKM_SHA384_RSA_PKCS_PSS, [CKM_SHA384, CKG_MGF1_SHA384, 48]),
    pss(SignatureScheme::RSA_PSS_SHA256, CKM_SHA256_RSA_PKCS_PSS, [CKM_SHA256, CKG_MGF1_SHA256, 32]),
    plain(SignatureScheme::RSA_PKCS1_SHA512, KeyType::Rsa, CKM_SHA512_RSA_PKCS),
    plain(SignatureScheme::RSA_PKCS1_SHA384, KeyType::Rsa, CKM_SHA384_RSA_PKCS),
    plain(SignatureScheme::RSA_PKCS1_SHA256, KeyType::Rsa, CKM_SHA256_RSA_PKCS),
    ecdsa(SignatureScheme::ECDSA_NISTP256_SHA256, KeyType::P256, CKM_ECDSA_SHA256, CKM_SHA256),
    ecdsa(SignatureScheme::ECDSA_NISTP384_SHA384, KeyType::P384, CKM_ECDSA_SHA384, CKM_SHA384),
    ecdsa(SignatureScheme::ECDSA_NISTP521_SHA512, KeyType::P521, CKM_ECDSA_SHA512, CKM_SHA512),
    plain(SignatureScheme::ED25519, KeyType::Ed25519, CKM_EDDSA),
    plain(SignatureScheme::ML_DSA_44, KeyType::MlDsa(CKP_ML_DSA_44), CKM_ML_DSA),
    plain(SignatureScheme::ML_DSA_65, KeyType::MlDsa(CKP_ML_DSA_65), CKM_ML_DSA),
    plain(SignatureScheme::ML_DSA_87, KeyType::MlDsa(CKP_ML_DSA_87), CKM_ML_DSA),
];

const fn plain(scheme: SignatureScheme, key: KeyType, mechanism: CK_MECHANISM_TYPE) -> Row {
    Row { scheme, key, mechanism, pss: None, on_digest: None }
}

const fn pss(scheme: SignatureScheme, mechanism: CK_MECHANISM_TYPE, parameters: [CK_ULONG; 3]) -> Row {
    Row { scheme, key: KeyType::Rsa, mechanism, pss: Some(parameters), on_digest: None }
}

const fn ecdsa(
    scheme: SignatureScheme,
    key: KeyType,
    mechanism: CK_MECHANISM_TYPE,
    digest: CK_MECHANISM_TYPE,
) -> Row {
    Row { scheme, key, mechanism, pss: None, on_digest: Some((CKM_ECDSA, digest)) }
}

/// A scheme with the mechanisms that a token has for it.
#[derive(Clone, Debug)]
pub(crate) struct Usable {
    pub(crate) scheme: SignatureScheme,
    pub(crate) mechanism: Mechanism,
    /// The mechanism that computes the input of `mechanism`. `None` if the input is the message.
    pub(crate) digest: Option<Mechanism>,
}

/// Returns the schemes of a key, in the order of preference. `has` returns whether the token has a
/// mechanism, and `permits` whether the key permits it.
pub(crate) fn usable(
    key: KeyType,
    has: impl Fn(CK_MECHANISM_TYPE) -> bool,
    permits: impl Fn(CK_MECHANISM_TYPE) -> bool,
) -> Vec<Usable> {
    let rows = SCHEMES.iter().filter(|row| row.key == key);
    let usable = |row: &Row| {
        let scheme = row.scheme;
        if has(row.mechanism) && permits(row.mechanism) {
            let mechanism = match &row.pss {
                Some(parameters) => Mechanism::with_numbers(row.mechanism, parameters),
                None => Mechanism::new(row.mechanism),
            };
            return Some(Usable { scheme, mechanism, digest: None });
        }
        let (mechanism, digest) = row.on_digest?;
        (has(mechanism) && has(digest) && permits(mechanism)).then(|| Usable {
            scheme,
            mechanism: Mechanism::new(mechanism),
            digest: Some(Mechanism::new(digest)),
        })
    };
    rows.filter_map(usable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_has_only_raw_ecdsa_also_computes_the_digest() {
        let has = |mechanism| [CKM_ECDSA, CKM_SHA384].contains(&mechanism);
        let found = usable(KeyType::P384, has, |_| true);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].digest, Some(Mechanism::new(CKM_SHA384)));
        assert!(usable(KeyType::P256, has, |_| true).is_empty());
    }

    #[test]
    fn a_key_that_permits_one_mechanism_has_one_scheme() {
        let found = usable(KeyType::Rsa, |_| true, |mechanism| mechanism == CKM_SHA256_RSA_PKCS_PSS);
        let schemes: Vec<_> = found.iter().map(|one| one.scheme).collect();
        assert_eq!(schemes, [SignatureScheme::RSA_PSS_SHA256]);
    }

    #[test]
    fn pss_is_preferred_to_pkcs1() {
        let found = usable(KeyType::Rsa, |_| true, |_| true);
        assert_eq!(found.len(), 6);
        assert_eq!(found[0].scheme, SignatureScheme::RSA_PSS_SHA512);
        assert_eq!(found[5].scheme, SignatureScheme::RSA_PKCS1_SHA256);
    }
}
