//! X.509: the algorithms as a table, and certificates, CRLs and OCSP responses as bytes to sign.
//!
//! This module does not sign or verify. `x509-cert` and `x509-ocsp` build the structures and their
//! DER. synta reads them, except the subject and the public key of a request.

mod algorithm;
mod authority;
mod contents;
mod elements;
mod extension;
mod public_key;
mod signed;

pub use algorithm::{ALGORITHMS, Algorithm, Input, Key, Profile, Signing};
pub use authority::Authority;
pub use contents::{AlternativeName, Attribute, Content, Extension, Request, alternative_names, extensions};
pub(crate) use contents::{EXTENSION_REQUEST, SUBJECT_ALT_NAME};
pub(crate) use public_key::{ED25519_NAME_PARAMS, ED25519_PARAMS, P256_PARAMS, P384_PARAMS};
pub use public_key::{public_key_attributes, subject_public_key};
pub use signed::{Signed, ocsp_payload, ocsp_response};
