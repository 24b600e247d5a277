//! The errors of the driver and of the modules that it calls.

use std::path::PathBuf;

use jeton_client::{Failure, LoadError};

/// The outcome of a function of the driver.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the driver. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Module(#[from] Failure),
    /// The module could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A token could not be prepared, the conformance suite failed, or a file could not be read or
    /// written.
    #[error(transparent)]
    Peer(#[from] jeton_peers::Error),
    /// A signature or a public key could not be made or read.
    #[error(transparent)]
    Pki(#[from] jeton_pki::Error),
    /// A certificate, a request, a CRL or an OCSP response could not be made or read.
    #[error(transparent)]
    Ca(#[from] jeton_ca::Error),
    /// AWS-LC, called directly, failed.
    #[error("AWS-LC failed while {0}")]
    InProcess(&'static str),
    /// The module lacks something that the work needs. The report shows `n/a`, not a failure.
    #[error("{0}")]
    NotAvailable(String),
    /// A stage of the pipeline failed.
    #[error("{stage}: {source}")]
    Stage {
        /// The name of the stage in the table.
        stage: &'static str,
        source: Box<Error>,
    },
    /// A structure could not be encoded or decoded.
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] rusqlite::Error),
    /// The work could not be done.
    #[error("{0}")]
    Failed(String),
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| jeton_peers::Error::Io { path, source }.into()
    }
}
