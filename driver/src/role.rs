//! The roles in which the driver starts itself as a child process.

use std::path::PathBuf;

use jeton_peers::TokenAccess;
use serde::{Deserialize, Serialize};

/// The work of a child process of the driver. A job that may contain a PIN of the user goes through
/// standard input.
#[derive(Serialize, Deserialize)]
pub enum Role {
    /// The process of one module in `pipeline`: it reads a job and writes events.
    Pipeline,
    /// The process of the module of a TLS measurement: it reads a job and writes events.
    Tls,
    /// The process of a TLS server: it reads a job and writes lines.
    Serve,
    /// The process that verifies a database through a module with a fresh token.
    VerifyDb(Verify),
    /// The process that loads a file to find out whether it is a module.
    LoadModule(PathBuf),
    /// The process that runs the checks of `conformance` on a module.
    Conformance(jeton_conformance::Job),
}

/// A database of the pipeline, and the module that verifies it.
#[derive(Serialize, Deserialize)]
pub struct Verify {
    pub db: PathBuf,
    pub library: PathBuf,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
    pub token: TokenAccess,
}
