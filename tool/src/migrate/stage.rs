//! The directory in which a new token is written, until its own directory is renamed into the token
//! directory.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::{Error, token_file};

/// The beginning of the names of these directories. The module does not look into them.
const PREFIX: &str = ".jeton-migrate-";

/// A directory for a new token. Dropping this value removes the directory.
pub struct Stage {
    directory: TempDir,
    /// The lock of the token directory; `None` for a dry run.
    _lock: Option<File>,
}

impl Stage {
    /// Creates a directory in the token directory, so that a rename can move the token's file.
    /// Waits until no other migration writes to the token directory. Removes the directories of
    /// migrations that were killed.
    pub fn in_tokens(tokens: &Path) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(tokens).map_err(Error::io(tokens))?;
        let lock = File::open(tokens).map_err(Error::io(tokens))?;
        lock.lock().map_err(Error::io(tokens))?;
        sweep(tokens)?;
        let directory =
            tempfile::Builder::new().prefix(PREFIX).tempdir_in(tokens).map_err(Error::io(tokens))?;
        Ok(Self { directory, _lock: Some(lock) })
    }

    /// Creates a directory elsewhere, for a dry run.
    pub fn temporary() -> Result<Self, Error> {
        let directory = tempfile::tempdir().map_err(Error::io(std::env::temp_dir()))?;
        Ok(Self { directory, _lock: None })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Moves the token's own directory into the token directory with one rename. Returns the new
    /// path of its file.
    pub fn publish(&self, tokens: &Path, serial: &str) -> Result<PathBuf, Error> {
        let from = token_file::path_of(self.path(), serial);
        if from.with_extension("jeton-wal").exists() {
            return Err(Error::Failed(
                "the new token could not be completed: its write-ahead log still exists".to_owned(),
            ));
        }
        token_file::open_file(&from, OFlags::RDONLY, 0)
            .and_then(|file| file.sync_all())
            .map_err(Error::io(&from))?;
        let to = tokens.join(serial);
        fs::rename(self.path().join(serial), &to).map_err(Error::io(&to))?;
        File::open(tokens).and_then(|directory| directory.sync_all()).map_err(Error::io(tokens))?;
        Ok(token_file::path_of(tokens, serial))
    }
}

/// Removes the directories of other migrations. The caller has the lock of the token directory, so
/// these migrations were killed.
fn sweep(tokens: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(tokens).map_err(Error::io(tokens))? {
        let entry = entry.map_err(Error::io(tokens))?;
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(entry.path()).map_err(Error::io(entry.path()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn migrations_that_start_together_remove_only_the_directories_of_killed_ones() {
        let tokens = tempfile::tempdir().expect("a directory");
        for round in 0..50 {
            for index in 0..20 {
                fs::create_dir(tokens.path().join(format!("{PREFIX}{round}-{index}"))).expect("a directory");
            }
            let migrate = || {
                let stage = Stage::in_tokens(tokens.path()).expect("a directory");
                assert!(stage.path().is_dir());
                assert_eq!(fs::read_dir(tokens.path()).expect("a directory").count(), 1);
            };
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(migrate);
                }
            });
            assert_eq!(fs::read_dir(tokens.path()).expect("a directory").count(), 0);
        }
    }
}
