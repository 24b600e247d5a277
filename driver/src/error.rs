//! What can go wrong in the driver, outside a module and inside it.

use std::fmt;
use std::path::PathBuf;

use crate::client::{Failure, LoadError, ModuleError};

/// An error of the driver. The text is what the user reads.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The module answered with a failure.
    #[error(transparent)]
    Module(#[from] Failure),
    /// The module could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// AWS-LC, called directly, refused.
    #[error("aws-lc refused while {0}")]
    InProcess(&'static str),
    /// The module has not what is needed. Not a failure of the module: shown as `n/a`.
    #[error("{0}")]
    NotAvailable(String),
    /// A stage of the pipeline failed.
    #[error("{stage}: {source}")]
    Stage {
        /// Its name in the table.
        stage: &'static str,
        /// Why.
        source: Box<Error>,
    },
    /// A stored signature is not the CA's.
    #[error("{document} with serial {serial}: the signature does not verify")]
    BadSignature {
        /// What was verified.
        document: Document,
        /// As the database row has it.
        serial: u64,
    },
    /// Stored bytes are not what they were stored as.
    #[error("{document} with serial {serial}: {reason}")]
    Malformed {
        /// What was read.
        document: Document,
        /// As the database row has it.
        serial: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A structure could not be encoded or decoded.
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    /// The database refused.
    #[error("database: {0}")]
    Database(#[from] rusqlite::Error),
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The command line asks for what cannot be.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// `map_err(Error::io(path))`
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
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
    /// A subscriber's certificate; its serial.
    Certificate,
    /// A CRL; its number.
    Crl,
    /// An OCSP response; the serial of its certificate.
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
