//! The errors of the tool and of the modules that it calls.

use std::path::PathBuf;

use crate::client::{Failure, LoadError};

/// An error of the tool. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function of the module failed.
    #[error(transparent)]
    Module(#[from] Failure),
    /// The module could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A module is missing, or a token could not be found or prepared.
    #[error(transparent)]
    Peer(#[from] jeton_peers::Error),
    /// A certificate or a request could not be made or read.
    #[error(transparent)]
    Pki(#[from] jeton_pki::Error),
    /// A structure could not be encoded or decoded.
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    /// Work on a token's file failed.
    #[error("cannot {what}: {reason}")]
    TokenFile {
        /// The work that failed.
        what: &'static str,
        /// The reason of the core.
        reason: String,
    },
    /// Reading or writing a file, or starting a program, failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file, directory or program.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
    /// An old store could not be read.
    #[error(transparent)]
    OldStore(#[from] jeton_migrate::Error),
    /// A migration failed.
    #[error("{0}")]
    Migration(String),
    /// A file with a key or a certificate could not be read.
    #[error("{}: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: jeton_formats::Error,
    },
    /// There is no such token, object or certificate.
    #[error("{0}")]
    NotFound(String),
    /// There is one already.
    #[error("{0}")]
    Exists(String),
    /// The list of issued certificates could not be read or written.
    #[error("{}: {source}", path.display())]
    Register {
        /// The file of the list.
        path: PathBuf,
        /// The reason of SQLite.
        source: rusqlite::Error,
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

    /// Returns whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Pki(jeton_pki::Error::Usage(_)))
    }
}

/// For the PIN of a signature, which the tool asks for while `jeton-pki` signs.
impl From<Error> for jeton_pki::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Pki(error) => error,
            Error::Module(failure) => Self::Module(failure),
            Error::Usage(text) => Self::Usage(text),
            other => Self::Failed(other.to_string()),
        }
    }
}
