//! X.509 with keys of a token: certificates, requests, CRLs and OCSP responses.
//!
//! `x509-cert` and `x509-ocsp` build the structures and read them.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod ecdsa;
mod error;
mod extension;
pub mod issuer;
pub mod key_type;
pub mod name;
mod public_key;
mod signed;

pub use error::Error;
pub use public_key::{RsaPublicKey, expect_one_encoding, public_key_template};
pub use signed::{Signed, ocsp_payload, ocsp_response};
