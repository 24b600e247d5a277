//! Output files. They belong to the user alone, and replace no other file unless the user says so.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::Error;

/// What happens to a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The command fails.
    Keep,
    /// The new file takes its place. A symbolic link is replaced, not followed.
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
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::Failed(format!("{} exists; --force replaces it", path.display())));
        }
        opened => opened.map_err(Error::io(path))?,
    };
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io(path))
}

fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(Error::io(path))?;
    file.persist(path).map(drop).map_err(|error| Error::io(path)(error.error))
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
