//! The files of Jeton's tokens. PKCS#11 has no function that deletes a token, so the tool removes
//! the files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{Error, token_file};

/// Removes the files of the token with this serial and returns their paths.
pub fn delete_files(directory: &Path, serial: &str) -> Result<Vec<PathBuf>, Error> {
    if serial.is_empty() || !serial.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(Error::Usage(format!("{serial:?} is not the serial of a Jeton token")));
    }
    let own = token_file::path_of(directory, serial);
    let flat = directory.join(format!("{serial}.jeton"));
    let token = if own.symlink_metadata().is_ok() { own } else { flat };
    // The token's file is removed last: an interruption leaves a token, not a log without its
    // token.
    let mut removed = Vec::new();
    for suffix in ["-wal", "-shm", "-lock", ""] {
        let mut name = token.clone().into_os_string();
        name.push(suffix);
        match fs::remove_file(&name) {
            Ok(()) => removed.push(name.into()),
            Err(error) if error.kind() == ErrorKind::NotFound && !suffix.is_empty() => {}
            Err(error) => return Err(Error::io(name)(error)),
        }
    }
    token_file::remove_empty_directory(&token);
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_log_are_removed_and_others_stay() {
        let directory = tempfile::tempdir().expect("the system has a temporary directory");
        for name in ["a1.jeton", "a1.jeton-wal", "b2.jeton"] {
            fs::write(directory.path().join(name), b"").expect("it is writable");
        }
        let removed = delete_files(directory.path(), "a1").expect("the token is there");
        assert_eq!(removed.len(), 2);
        assert!(directory.path().join("b2.jeton").exists());
        assert!(!directory.path().join("a1.jeton").exists());
    }

    #[test]
    fn the_own_directory_of_a_token_is_removed_with_it() {
        const SERIAL: &str = "0123456789abcdef";
        let directory = tempfile::tempdir().expect("the system has a temporary directory");
        let token = token_file::path_of(directory.path(), SERIAL);
        let own = token.parent().expect("a directory");
        fs::create_dir(own).expect("it is writable");
        for path in [&token, &token.with_extension("jeton-lock")] {
            fs::write(path, b"").expect("it is writable");
        }
        assert_eq!(delete_files(directory.path(), SERIAL).expect("the token is there").len(), 2);
        assert!(!own.exists());
    }

    #[test]
    fn a_serial_that_is_a_path_is_refused() {
        let directory = tempfile::tempdir().expect("the system has a temporary directory");
        assert!(matches!(delete_files(directory.path(), "../a1"), Err(Error::Usage(_))));
        assert!(matches!(delete_files(directory.path(), "a1"), Err(Error::Peer(_))));
    }
}
