//! X.509: the algorithms as a table, and certificates, CRLs and OCSP responses as bytes to sign.
//!
//! This module does not sign or verify. The structures and their DER are those of `x509-cert` and
//! `x509-ocsp`.

mod algorithm;
mod authority;
mod extension;
mod public_key;
mod signed;

pub use algorithm::{ALGORITHMS, Algorithm, Input, Key, Profile, Signing};
pub use authority::Authority;
pub(crate) use public_key::{ED25519_NAME_PARAMS, ED25519_PARAMS, P256_PARAMS, P384_PARAMS};
pub use public_key::{public_key_attributes, subject_public_key};
pub use signed::{Signed, ocsp_payload, ocsp_response};
