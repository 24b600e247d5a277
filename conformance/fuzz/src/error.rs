//! The errors of the tool that the reader of backups returns.

use std::path::PathBuf;

/// Has the variants of `tool/src/error.rs` that the files in `tool` use.
#[derive(Debug)]
#[allow(missing_docs, reason = "the tool's error documents them")]
pub enum Error {
    TokenFile { what: &'static str, reason: String },
    Io { path: PathBuf, source: std::io::Error },
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
