//! A certificate authority whose keys are in any PKCS#11 module: certificates, requests, revocation
//! lists, profiles, OCSP responses, the list of issued certificates, and the validation of paths.
//!
//! `x509-cert` and `x509-ocsp` build the structures and read them. The caller opens the session and
//! brings the [`Rules`] for files and keys: this library knows no token.

#![forbid(unsafe_code)]

pub mod adopt;
pub mod authority;
pub mod certificate;
pub mod crl;
mod error;
mod extension;
pub mod file;
mod init;
pub mod issue;
pub mod issuer;
pub mod name;
pub mod path;
pub mod register;
pub mod responder;
mod rules;
pub mod search;

pub use error::{Cause, Error};
pub use init::init;
pub use rules::Rules;
