//! The directory in which a new token is written, until its file is renamed into the token
//! directory.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;

/// The beginning of the names of these directories. The module does not look into them.
const PREFIX: &str = ".jeton-migrate-";

/// A directory for a new token. Dropping this value removes the directory. The lock shows other
/// migrations that this one still runs, so that they do not remove the directory.
pub struct Stage {
    directory: TempDir,
    _lock: File,
}

impl Stage {
    /// Creates a directory in the token directory, so that a rename can move the token's file.
    /// Removes the directories of migrations that were killed.
    pub fn in_tokens(tokens: &Path) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(tokens).map_err(Error::io(tokens))?;
        sweep(tokens)?;
        Self::create(tokens)
    }

    /// Creates a directory elsewhere, for a dry run.
    pub fn temporary() -> Result<Self, Error> {
        Self::create(&std::env::temp_dir())
    }

    fn create(parent: &Path) -> Result<Self, Error> {
        let directory =
            tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).map_err(Error::io(parent))?;
        let lock = File::open(directory.path()).map_err(Error::io(directory.path()))?;
        lock.lock().map_err(Error::io(directory.path()))?;
        Ok(Self { directory, _lock: lock })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Moves the token's file into the token directory with one rename. Returns its new path.
    pub fn publish(&self, tokens: &Path, serial: &str) -> Result<PathBuf, Error> {
        let name = format!("{serial}.jeton");
        let (from, to) = (self.path().join(&name), tokens.join(&name));
        let journal = self.path().join(format!("{name}-wal"));
        if journal.exists() {
            return Err(Error::Migration(
                "the new token could not be completed: its write-ahead log still exists".to_owned(),
            ));
        }
        File::open(&from).and_then(|file| file.sync_all()).map_err(Error::io(&from))?;
        fs::rename(&from, &to).map_err(Error::io(&to))?;
        File::open(tokens).and_then(|directory| directory.sync_all()).map_err(Error::io(tokens))?;
        Ok(to)
    }
}

/// Removes the directories whose lock no process holds.
fn sweep(tokens: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(tokens).map_err(Error::io(tokens))? {
        let entry = entry.map_err(Error::io(tokens))?;
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            let abandoned = File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok());
            if abandoned {
                fs::remove_dir_all(&path).map_err(Error::io(&path))?;
            }
        }
    }
    Ok(())
}
