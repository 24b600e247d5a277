//! The types of keys, versions, key exchanges and types of handshakes, and the combinations that
//! exist.

use aws_lc_rs::rsa::KeySize;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};
use rustls::{SignatureScheme, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

use crate::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    Rsa2048,
    P256,
    P384,
    Ed25519,
    MlDsa65,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    V12,
    #[serde(rename = "1.3")]
    V13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    X25519,
    X25519MlKem768,
}

/// Whether a handshake resumes an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resumption {
    /// A full handshake: the server signs.
    Full,
    /// A resumed handshake: the server does not sign.
    Resumed,
}

/// A value with its name on the command line.
type Named<T> = (&'static str, T);

const KEYS: [Named<KeyKind>; 5] = [
    ("rsa2048", KeyKind::Rsa2048),
    ("p256", KeyKind::P256),
    ("p384", KeyKind::P384),
    ("ed25519", KeyKind::Ed25519),
    ("ml-dsa-65", KeyKind::MlDsa65),
];
const VERSIONS: [Named<TlsVersion>; 2] = [("1.2", TlsVersion::V12), ("1.3", TlsVersion::V13)];
const EXCHANGES: [Named<Exchange>; 2] =
    [("x25519", Exchange::X25519), ("x25519mlkem768", Exchange::X25519MlKem768)];
const RESUMPTIONS: [Named<Resumption>; 2] = [("full", Resumption::Full), ("resumed", Resumption::Resumed)];

fn named<T: Copy, const N: usize>(what: &str, all: &[Named<T>; N], name: &str) -> Result<T, Error> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|(known, _)| *known).collect();
        Error::Usage(format!("unknown {what} {name:?}; known are {}", known.join(", ")))
    })
}

fn name_of<T: Copy + PartialEq, const N: usize>(all: &[Named<T>; N], value: T) -> &'static str {
    all.iter().find(|(_, one)| *one == value).map(|(name, _)| *name).unwrap_or_default()
}

impl KeyKind {
    pub fn parse(name: &str) -> Result<Self, Error> {
        named("key", &KEYS, name)
    }

    pub fn name(self) -> &'static str {
        name_of(&KEYS, self)
    }

    /// Returns the name in `key generate --type`, which [`jeton_pki::key_type::KeyType`] and
    /// [`crate::algorithm::Algorithm`] read.
    pub(super) fn key_type(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa:2048",
            Self::P256 => "ec:p256",
            Self::P384 => "ec:p384",
            Self::Ed25519 => "ed25519",
            Self::MlDsa65 => "ml-dsa-65",
        }
    }

    pub(super) fn certificate_scheme(self) -> SignatureScheme {
        match self {
            Self::Rsa2048 => SignatureScheme::RSA_PKCS1_SHA256,
            Self::P256 => SignatureScheme::ECDSA_NISTP256_SHA256,
            Self::P384 => SignatureScheme::ECDSA_NISTP384_SHA384,
            Self::Ed25519 => SignatureScheme::ED25519,
            Self::MlDsa65 => SignatureScheme::ML_DSA_65,
        }
    }

    pub(super) const RSA_SIZE: KeySize = KeySize::Rsa2048;
}

impl TlsVersion {
    pub fn parse(name: &str) -> Result<Self, Error> {
        named("version of TLS", &VERSIONS, name)
    }

    pub fn name(self) -> &'static str {
        name_of(&VERSIONS, self)
    }

    pub(super) fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V12 => &rustls::version::TLS12,
            Self::V13 => &rustls::version::TLS13,
        }
    }
}

impl Exchange {
    pub fn parse(name: &str) -> Result<Self, Error> {
        named("key exchange", &EXCHANGES, name)
    }

    pub fn name(self) -> &'static str {
        name_of(&EXCHANGES, self)
    }

    pub(super) fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519 => X25519,
            Self::X25519MlKem768 => X25519MLKEM768,
        }
    }
}

impl Resumption {
    pub fn parse(name: &str) -> Result<Self, Error> {
        named("kind of handshake", &RESUMPTIONS, name)
    }

    pub fn name(self) -> &'static str {
        name_of(&RESUMPTIONS, self)
    }
}

/// Returns whether a server with this type of key can use this version with this key exchange.
/// ML-DSA and ML-KEM are defined for TLS 1.3 only.
pub(super) fn exists(key: KeyKind, version: TlsVersion, exchange: Exchange) -> bool {
    version == TlsVersion::V13 || (key != KeyKind::MlDsa65 && exchange == Exchange::X25519)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_an_unknown_one_is_reported_with_the_known_ones() {
        for (name, key) in KEYS {
            assert_eq!(KeyKind::parse(name).expect("it is in the table"), key);
            assert_eq!(key.name(), name);
            assert!(jeton_pki::key_type::KeyType::parse(key.key_type()).is_ok());
            assert!(crate::algorithm::Algorithm::named(key.key_type()).is_ok());
        }
        let error = KeyKind::parse("rsa1").expect_err("it is not in the table").to_string();
        assert_eq!(error, "unknown key \"rsa1\"; known are rsa2048, p256, p384, ed25519, ml-dsa-65");
        assert!(TlsVersion::parse("1.1").is_err() && Exchange::parse("dh").is_err());
    }

    #[test]
    fn post_quantum_algorithms_are_left_out_of_tls_1_2() {
        assert!(exists(KeyKind::P256, TlsVersion::V12, Exchange::X25519));
        assert!(!exists(KeyKind::MlDsa65, TlsVersion::V12, Exchange::X25519));
        assert!(!exists(KeyKind::P256, TlsVersion::V12, Exchange::X25519MlKem768));
        assert!(exists(KeyKind::MlDsa65, TlsVersion::V13, Exchange::X25519MlKem768));
    }
}
