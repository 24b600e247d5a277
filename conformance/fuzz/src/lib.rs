//! The common code of the fuzz targets: a token, and calls with arguments as hostile as PKCS#11
//! allows. Every pointer is `NULL` or points to a separate block of the right length, so that
//! AddressSanitizer finds accesses beyond it. The fuzzer chooses everything else.
//!
//! A run is a sequence of calls, read from the fuzzer's bytes (`source`). The table of functions
//! (`calls`) has the argument types. A finding is a panic (libfuzzer-sys aborts before the C
//! interface could catch it), a memory error, a leak, a slow call, an unknown return code, or a
//! broken rule for keys (`policy`).

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(missing_docs, reason = "no other package imports this one")]

mod calls;
mod error;
mod memory;
mod parameters;
mod policy;
mod run;
mod secrets;
mod service;
mod source;
mod templates;
mod token;

pub mod backup;
pub mod differences;
pub mod frames;
pub mod import;
pub mod migrate;
pub mod signatures;
pub mod store;
pub mod targets;
pub mod trace;

/// The files of the tool that read backups. The tool as a whole has many more dependencies.
#[path = "../../../tool/src"]
pub mod tool {
    pub mod backup;
    pub mod certificate_list;
    pub mod output_file;
    pub mod token_file;
}

// The names that these files use.
pub use error::{Cause, Error};
use jeton_client as client;
use jeton_formats as formats;
use tool::{certificate_list, output_file, token_file};
