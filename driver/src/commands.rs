//! The subcommands. They read the options and print the results; the library does the work.

#[cfg(feature = "acme")]
pub mod acme;
pub mod compare;
mod modules;
pub mod pipeline;
pub mod report;
pub mod tls;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jeton_driver::about::write_json;
use jeton_driver::report::Report;
use jeton_driver::{Error, Result};
use jeton_laboratory::distinct;
use jeton_peers::printed;
