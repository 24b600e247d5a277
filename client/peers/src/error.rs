//! The errors of this package, of the conformance suite and of the benches.

use std::path::PathBuf;

use jeton_client::{Failure, LoadError};

/// An error. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function of the module failed.
    #[error(transparent)]
    Module(#[from] Failure),
    /// The module could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An operation on a file or directory failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
    /// Any other error, as text.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
