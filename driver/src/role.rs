//! The roles in which the driver starts itself as a child process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The work of a child process of the driver. A job that may contain a PIN of the user goes through
/// standard input.
#[derive(Serialize, Deserialize)]
pub enum Role {
    /// The process of one module in `pipeline`: it reads a job and writes events.
    Pipeline,
    /// The process of the module of a TLS measurement: it reads a job and writes events.
    Tls,
    /// The process that loads a file to find out whether it is a module.
    LoadModule(PathBuf),
    /// The process that runs the checks of `conformance` on a module.
    Conformance(jeton_conformance::Job),
}
