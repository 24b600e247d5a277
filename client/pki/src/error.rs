//! The errors of this crate.

use jeton_client::Failure;

/// An error of this crate. Its text is the message to the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function of the module failed.
    #[error(transparent)]
    Module(#[from] Failure),
    /// A structure could not be encoded or decoded.
    #[error("DER: {0}")]
    Der(#[from] der::Error),
    /// The caller asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// A rule of the CA forbids it.
    #[error("refused: {0}")]
    Refused(String),
    /// The work could not be done.
    #[error("{0}")]
    Failed(String),
}
