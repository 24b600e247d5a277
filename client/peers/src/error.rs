//! The errors of this package, of the conformance suite and of the benches.

use std::io;
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
        source: io::Error,
    },
    /// Any other error, as text.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Returns the result of a write to standard output. A pipe that the reader has closed, as `head`
/// does, is no error: otherwise the exit status would depend on who is faster.
pub fn printed(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output")(error)),
        _ => Ok(()),
    }
}
