//! The subcommands. They read the options and print the results; the library does the work.

mod adopt;
mod again;
pub mod agent;
pub mod audit;
mod authority;
pub mod backup;
pub mod ca;
pub mod cert;
pub mod compute;
pub mod config;
pub mod crl;
pub mod doctor;
mod http;
mod issue;
mod issued;
pub mod key;
pub mod manual;
pub mod mechanisms;
pub mod migrate;
pub mod object;
pub mod ocsp;
pub mod out;
pub mod pin;
pub mod pins;
mod protection;
mod report;
mod target;
pub mod token;
pub mod token_file;

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use der::Decode;
use jeton_client::text::{hex, shown};
use jeton_peers::printed;
use jeton_tool::client::{Access, ObjectHandle, Session};
use jeton_tool::register::{Entry, Register};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use x509_cert::Certificate;
use zeroize::Zeroizing;
