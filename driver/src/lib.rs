//! PKCS#11 modules of any make, through their C ABI and nothing else: a safe client, the
//! administration of tokens, and an X.509 PKI pipeline that is run through several modules side by
//! side.
//!
//! What this crate can do with a module, any client can. Only [`token_file`] calls Jeton's core,
//! for commands that PKCS#11 has no function for.

#![deny(unsafe_code)]

pub mod audit;
pub mod error;
pub mod migrate;
pub mod pipeline;
pub mod pki;
pub mod report;
pub mod results;
pub mod selection;
pub mod token;
pub mod token_file;

pub use error::Error;
pub use jeton_client as client;
