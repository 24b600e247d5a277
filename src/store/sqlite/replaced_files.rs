//! Notices that a name of an open token's files leads to another file, or to no file.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::file_identity::FileId;
use crate::file;

/// The names of the files of an open token, and the files that had these names when the token was
/// opened.
pub(super) struct Names {
    id: FileId,
    files: Vec<(PathBuf, FileId)>,
}

impl Names {
    /// Records the files of the token at `path`, which SQLite has open.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let id = FileId::from(&std::fs::symlink_metadata(path)?);
        let mut files = vec![(path.to_owned(), id)];
        for suffix in ["-wal", "-shm"] {
            let name = file::beside(path, suffix);
            // A read-only file may have neither.
            if let Ok(data) = std::fs::symlink_metadata(&name) {
                files.push((name, FileId::from(&data)));
            }
        }
        Ok(Self { id, files })
    }

    /// Returns the identity of the token file.
    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Fails if a name now belongs to another file, or to no file: other processes would not see
    /// what is written.
    pub(super) fn verify(&self) -> Result<()> {
        for (path, id) in &self.files {
            let found = std::fs::symlink_metadata(path).map(|data| FileId::from(&data));
            let what = match found {
                Ok(found) if found == *id => continue,
                Ok(_) => "another file has the name",
                Err(reason) if reason.kind() == ErrorKind::NotFound => "no file has the name",
                Err(reason) => return Err(reason),
            };
            return Err(Error::other(format!("{what} {:?}", path.file_name().unwrap_or_default())));
        }
        Ok(())
    }
}
