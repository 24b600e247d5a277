//! Output files. Only their owner may read them. They replace an existing file only with `--force`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::NamedTempFile;

use crate::{Cause, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    /// The new file replaces it. A symbolic link is replaced, not followed.
    Replace,
}

/// Writes a new file that only its owner may read.
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    match existing {
        Existing::Keep => create(path, bytes),
        Existing::Replace => replace(path, bytes),
    }
}

fn create(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    // `create_new` does not follow a symbolic link.
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
        opened => opened.map_err(Error::io(path))?,
    };
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io(path))
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io(path))?;
    file.persist(path).map(drop).map_err(|error| Error::io(path)(error.error))
}

/// A new file that gets its name when it is complete. Until then it has no name, so a process that
/// is killed leaves no file. If the file system does not support this, the file has a temporary
/// name. Only its owner may read the file.
pub struct NewFile {
    path: PathBuf,
    folder: PathBuf,
    existing: Existing,
    file: Unnamed,
}

enum Unnamed {
    /// The file system supports `O_TMPFILE`.
    Nameless(File),
    /// The file system does not support `O_TMPFILE`, so the file has a temporary name.
    Temporary(NamedTempFile),
}

impl NewFile {
    /// Creates the file. Fails if a file exists that must be kept.
    pub fn create(path: &Path, existing: Existing) -> Result<Self, Error> {
        if existing == Existing::Keep {
            expect_absent(path)?;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Unnamed::Nameless(file.into()),
            Err(_) => Unnamed::Temporary(NamedTempFile::new_in(folder).map_err(Error::io(folder))?),
        };
        Ok(Self { path: path.to_owned(), folder: folder.to_owned(), existing, file })
    }

    pub fn file(&self) -> &File {
        match &self.file {
            Unnamed::Nameless(file) => file,
            Unnamed::Temporary(file) => file.as_file(),
        }
    }

    pub fn publish(self) -> Result<(), Error> {
        self.file().sync_all().map_err(Error::io(&self.path))?;
        let path = self.path;
        let named = match (self.file, self.existing) {
            (Unnamed::Temporary(file), Existing::Keep) => {
                file.persist_noclobber(&path).map(drop).map_err(|error| error.error)
            }
            (Unnamed::Temporary(file), Existing::Replace) => {
                file.persist(&path).map(drop).map_err(|error| error.error)
            }
            (Unnamed::Nameless(file), Existing::Keep) => link(&file, &path),
            // A link cannot replace a file. So the file first gets a temporary name, and a rename
            // replaces the old file.
            (Unnamed::Nameless(file), Existing::Replace) => {
                let name = tempfile::Builder::new().make_in(&self.folder, |name| link(&file, name));
                name.and_then(|name| name.persist(&path).map_err(|error| error.error)).map(drop)
            }
        };
        named.map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => exists(&path),
            _ => Error::io(&path)(reason),
        })?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(Error::io(&self.folder))
    }
}

/// Gives an open file a name. `open(2)`, `O_TMPFILE`.
fn link(file: &File, name: &Path) -> std::io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Fails if there is something with this name.
pub fn expect_absent(path: &Path) -> Result<(), Error> {
    if path.symlink_metadata().is_ok() { Err(exists(path)) } else { Ok(()) }
}

fn exists(path: &Path) -> Error {
    Error::Caused(Cause::Exists, format!("{} exists; --force replaces it", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_kept_and_a_link_is_never_followed() {
        let folder = tempfile::tempdir().expect("the system has a temporary directory");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"1", Existing::Keep).expect("the file is new");
        assert_eq!(fs::metadata(&file).expect("the file").mode() & 0o777, 0o600);
        assert!(write(&file, b"2", Existing::Keep).is_err());
        symlink(&file, &link).expect("a link");
        assert!(write(&link, b"2", Existing::Keep).is_err());
        write(&link, b"2", Existing::Replace).expect("it replaces the link");
        assert_eq!(fs::read(&file).expect("the file"), b"1");
        assert_eq!(fs::read(&link).expect("the file"), b"2");
        assert_eq!(fs::metadata(&link).expect("the file").mode() & 0o777, 0o600);
    }
}
