//! The errors of the tool that the reader of backups returns.

use std::path::PathBuf;

/// Has the variants of `Cause` in `tool/src/error.rs` that the files in `tool` use.
#[derive(Debug, Clone, Copy)]
pub enum Cause {
    Other,
    NotFound,
    Exists,
    WrongPin,
    Locked,
    Refused,
    Damaged,
    NotPermitted,
    Device,
}

impl Cause {
    pub fn error(self, text: impl Into<String>) -> Error {
        Error::Caused(self, text.into())
    }
}

/// Has the variants of `tool/src/error.rs` that the files in `tool` use.
#[derive(Debug)]
pub enum Error {
    TokenFile {
        what: &'static str,
        cause: Cause,
        reason: String,
    },
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    Format(jeton_formats::Error),
    #[cfg(feature = "ca")]
    Ca(jeton_ca::Error),
    Caused(Cause, String),
    Failed(String),
    Usage(String),
}

impl Error {
    /// Returns a function that adds the path to an error of the operating system.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

impl From<jeton_formats::Error> for Error {
    fn from(error: jeton_formats::Error) -> Self {
        Self::Format(error)
    }
}

#[cfg(feature = "ca")]
impl From<jeton_ca::Error> for Error {
    fn from(error: jeton_ca::Error) -> Self {
        Self::Ca(error)
    }
}
