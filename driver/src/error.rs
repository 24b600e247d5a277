//! The errors of the driver and of the modules that it calls.

use std::fmt;
use std::path::PathBuf;

use jeton_client::{Failure, LoadError, ModuleError};

/// An error of the driver. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function of the module failed.
    #[error(transparent)]
    Module(#[from] Failure),
    /// The module could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
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
        /// The reason.
        source: Box<Error>,
    },
    /// A stored signature is not from the CA.
    #[error("{document} with serial {serial}: the signature does not verify")]
    BadSignature {
        /// The kind of document that was verified.
        document: Document,
        /// The serial number in the database row.
        serial: u64,
    },
    /// Stored bytes cannot be decoded as a document of this kind.
    #[error("{document} with serial {serial}: {reason}")]
    Malformed {
        /// The kind of document that was read.
        document: Document,
        /// The serial number in the database row.
        serial: u64,
        /// The reason.
        reason: String,
    },
    /// A structure could not be encoded or decoded.
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    /// A structure could not be read.
    #[error("DER: {0}")]
    Asn1(#[from] synta::Error),
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] rusqlite::Error),
    /// Reading or writing a file, or starting a program, failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file, directory or program.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
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
        move |source| Self::Io { path, source }
    }
}

impl From<jeton_peers::Error> for Error {
    fn from(error: jeton_peers::Error) -> Self {
        match error {
            jeton_peers::Error::Module(failure) => Self::Module(failure),
            jeton_peers::Error::Load(error) => Self::Load(error),
            jeton_peers::Error::Io { path, source } => Self::Io { path, source },
            jeton_peers::Error::Message(text) => Self::Failed(text),
        }
    }
}

impl From<ModuleError> for Error {
    fn from(error: ModuleError) -> Self {
        match error {
            ModuleError::Load(error) => Self::Load(error),
            ModuleError::Call(failure) => Self::Module(failure),
        }
    }
}

/// A kind of stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// A subscriber's certificate. An error names its serial number.
    Certificate,
    /// A CRL. An error names its CRL number.
    Crl,
    /// An OCSP response. An error names the serial number of its certificate.
    OcspResponse,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Crl => "CRL",
            Self::OcspResponse => "OCSP response",
        })
    }
}

impl From<jeton_pki::Error> for Error {
    fn from(error: jeton_pki::Error) -> Self {
        match error {
            jeton_pki::Error::Module(failure) => Self::Module(failure),
            jeton_pki::Error::Der(error) => Self::Der(error),
            jeton_pki::Error::Asn1(error) => Self::Asn1(error),
            jeton_pki::Error::Usage(text) => Self::Usage(text),
            jeton_pki::Error::Failed(text) => Self::Failed(text),
        }
    }
}
