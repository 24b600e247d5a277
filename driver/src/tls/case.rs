//! The types of keys, versions, key exchanges and types of handshakes, and the combinations that
//! exist.

use aws_lc_rs::rsa::KeySize;
use clap::ValueEnum;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};
use rustls::{SignatureScheme, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    Rsa2048,
    P256,
    P384,
    Ed25519,
    #[value(name = "ml-dsa-65")]
    MlDsa65,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    #[value(name = "1.2")]
    V12,
    #[serde(rename = "1.3")]
    #[value(name = "1.3")]
    V13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Exchange {
    X25519,
    X25519MlKem768,
}

/// Whether a handshake resumes an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Resumption {
    /// A full handshake: the server signs.
    Full,
    /// A resumed handshake: the server does not sign.
    Resumed,
}

/// Returns the name of a value on the command line.
pub(crate) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|one| one.get_name().to_owned()).unwrap_or_default()
}

impl KeyKind {
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
    pub(super) fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V12 => &rustls::version::TLS12,
            Self::V13 => &rustls::version::TLS13,
        }
    }
}

impl Exchange {
    pub(super) fn group(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519 => X25519,
            Self::X25519MlKem768 => X25519MLKEM768,
        }
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
    fn every_key_type_is_known() {
        for key in KeyKind::value_variants() {
            assert!(jeton_pki::key_type::KeyType::parse(key.key_type()).is_ok());
            assert!(crate::algorithm::Algorithm::named(key.key_type()).is_ok());
        }
    }

    #[test]
    fn post_quantum_algorithms_are_left_out_of_tls_1_2() {
        assert!(exists(KeyKind::P256, TlsVersion::V12, Exchange::X25519));
        assert!(!exists(KeyKind::MlDsa65, TlsVersion::V12, Exchange::X25519));
        assert!(!exists(KeyKind::P256, TlsVersion::V12, Exchange::X25519MlKem768));
        assert!(exists(KeyKind::MlDsa65, TlsVersion::V13, Exchange::X25519MlKem768));
    }
}
