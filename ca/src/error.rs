//! The errors of this crate.

use std::io;
use std::path::PathBuf;

use jeton_client::Failure;
use jeton_formats::Error as File;
use jeton_pki::Error as Pki;

/// The cause of a failure, if the message alone has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no such certificate, CA, list or file.
    NotFound,
    /// It is so already.
    Exists,
    /// A rule of the CA forbids it.
    Refused,
    /// A file is damaged or was altered.
    Damaged,
    /// Another user may have written to a file.
    NotPermitted,
    /// None of the others.
    Other,
}

impl Cause {
    /// Returns an error with this cause and this message.
    pub fn error(self, text: impl Into<String>) -> Error {
        Error::Caused(self, text.into())
    }
}

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
    /// The work could not be done, for this reason.
    #[error("{1}")]
    Caused(Cause, String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or the folder.
        path: PathBuf,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// A file has no certificate that can be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: File,
    },
    /// A certificate of the list or of a token cannot be read.
    #[error(transparent)]
    Format(#[from] File),
    /// The list of issued certificates could not be read or written.
    #[error("{}: {source}", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Returns the cause, as far as it is known.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Caused(cause, _) => *cause,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => Cause::NotFound,
                io::ErrorKind::PermissionDenied => Cause::NotPermitted,
                _ => Cause::Damaged,
            },
            Self::Refused(_) => Cause::Refused,
            _ => Cause::Other,
        }
    }

    /// The error of a certificate or a CRL that should be well-formed.
    pub(crate) fn damaged(error: der::Error) -> Self {
        Cause::Damaged.error(format!("DER: {error}"))
    }
}

impl From<Pki> for Error {
    fn from(error: Pki) -> Self {
        match error {
            Pki::Module(failure) => Self::Module(failure),
            Pki::Der(error) => Self::Der(error),
            Pki::Usage(text) => Self::Usage(text),
            Pki::Refused(text) => Self::Refused(text),
            Pki::Failed(text) => Self::Failed(text),
        }
    }
}
