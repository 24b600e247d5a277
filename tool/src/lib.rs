//! The library of the tool `jeton`. It administers the tokens of PKCS#11 modules of any vendor.
//!
//! It uses the modules only through their C interface. Only [`token_file`] calls Jeton's core, for
//! commands that PKCS#11 has no function for.

#![deny(unsafe_code)]
#![allow(missing_docs, reason = "no other package imports this one")]

pub mod audit;
pub mod backup;
pub mod ceremony;
pub mod certificate_list;
pub mod doctor;
pub mod error;
pub mod import;
pub mod inventory;
pub mod migrate;
pub mod object;
pub mod output_file;
pub mod shares;
pub mod time;
pub mod token;
pub mod token_file;
pub mod uri;

pub use error::{Cause, Error};
pub use jeton_client as client;
pub use jeton_formats as formats;
