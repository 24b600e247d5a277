//! The library of the program `jeton-driver`. It runs workloads through PKCS#11 modules of any
//! vendor, side by side, and measures them: an X.509 PKI pipeline and TLS handshakes.
//!
//! It uses the modules only through their C interface.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "no other package imports this one")]

pub mod about;
#[cfg(feature = "acme")]
pub mod acme;
pub mod algorithm;
pub mod error;
pub mod page;
pub mod pipeline;
pub mod report;
pub mod results;
pub mod role;
pub mod selection;
pub mod tls;

pub use error::{Error, Result};
pub use jeton_client as client;
