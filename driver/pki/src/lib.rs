//! X.509 with keys of a token: certificates, requests, CRLs and OCSP responses.
//!
//! `x509-cert` and `x509-ocsp` build the structures and their DER. synta reads them, except the
//! subject and the public key of a request.

#![forbid(unsafe_code)]

mod algorithm;
mod authority;
pub mod certificate;
mod contents;
pub mod ecdsa;
mod elements;
mod error;
mod extension;
pub mod issuer;
pub mod key_type;
mod public_key;
mod signed;

pub use algorithm::{ALGORITHMS, Algorithm, Input, Key, Profile, Signing};
pub use authority::Authority;
pub use contents::{
    AlternativeName, Attribute, Content, EXTENSION_REQUEST, Extension, Request, SUBJECT_ALT_NAME,
    alternative_names, extensions,
};
pub use error::Error;
pub use public_key::{ED25519_NAME_PARAMS, public_key_attributes, public_key_template, subject_public_key};
pub use signed::{Signed, ocsp_payload, ocsp_response};
