//! The subcommands. They read the options and print the results; the library does the work.

pub mod audit;
pub mod backend;
pub mod backup;
pub mod cert;
pub mod compare;
pub mod compute;
pub mod config;
pub mod doctor;
pub mod issue;
pub mod key;
pub mod manual;
pub mod mechanisms;
pub mod migrate;
mod modules;
pub mod object;
mod out;
#[cfg(feature = "parse")]
pub mod parse;
pub mod pin;
pub mod pins;
pub mod pipeline;
pub mod report;
mod target;
pub mod tls;
pub mod token;
pub mod token_file;
pub mod verify_db;

use jeton_driver::Error;

/// Returns the error of a write to standard output that failed, for example because the reader of a
/// pipe has ended.
fn printing(source: std::io::Error) -> Error {
    Error::io("standard output")(source)
}
