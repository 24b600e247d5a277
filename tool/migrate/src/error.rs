//! The errors of the readers. Their text is the message to the user.

use std::path::{Path, PathBuf};

/// A store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no store of a known format.
    #[error(
        "{}: no token here. Expected: the token directory of SoftHSMv2 (directories.tokendir), an NSS \
         database with key4.db, or the database file of Kryoptic (dbargs); older NSS databases (key3.db) must \
         be converted with certutil first",
        .0.display()
    )]
    NoStore(PathBuf),
    /// An operation on a file or directory failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The reason of the operating system.
        source: std::io::Error,
    },
    /// A file does not have the form that its program writes.
    #[error("{}: damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The PIN is wrong, or the stored PIN record is damaged.
    #[error("{}: the PIN is wrong, or the stored PIN record is damaged", .0.display())]
    WrongPin(PathBuf),
    /// The store has no user PIN, so it has no private objects that could be read.
    #[error("{}: the user's PIN was never set", .0.display())]
    NoPin(PathBuf),
    /// The store is intact, but has something that this reader does not support.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What the reader does not support, and what the user can do.
        reason: String,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds this path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns an error that names the damaged file.
    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}
