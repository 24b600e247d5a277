//! PKCS#11 modules of any make, through their C ABI and nothing else: a safe client, the administration of
//! tokens, and an X.509 PKI pipeline that is run through several modules side by side.
//!
//! Nothing here knows Jeton's core. What this crate can do with a module, any client can.

#![deny(unsafe_code)]

pub mod audit;
pub mod client;
pub mod error;
pub mod peers;
pub mod pipeline;
pub mod pki;
pub mod report;
pub mod token;

pub use error::Error;
