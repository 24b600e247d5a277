//! The library of the tool `jeton`. It administers the tokens of PKCS#11 modules of any vendor. It
//! also measures the modules: with an X.509 PKI pipeline, with the issuance of certificates under
//! load, and with TLS handshakes.
//!
//! It uses the modules only through their C interface. Only [`token_file`] calls Jeton's core, for
//! commands that PKCS#11 has no function for.

#![deny(unsafe_code)]

pub mod about;
pub mod audit;
pub mod backup;
pub mod certificate;
pub mod doctor;
pub mod error;
mod figure;
pub mod heap;
pub mod import;
pub mod issuance;
pub mod key_type;
pub mod migrate;
pub mod object;
pub mod output;
pub mod page;
#[cfg(feature = "parse")]
pub mod parse;
pub mod pipeline;
pub mod pki;
pub mod report;
pub mod results;
pub mod role;
pub mod selection;
pub mod text;
pub mod tls;
pub mod token;
pub mod token_file;
pub mod uri;

pub use error::Error;
pub use jeton_client as client;
pub use jeton_formats as formats;
