//! The files of Jeton's tokens. PKCS#11 has no function that deletes a token, so the tool removes
//! the files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Error;

/// Removes the files of the token with this serial and returns their paths.
pub fn delete_files(directory: &Path, serial: &str) -> Result<Vec<PathBuf>, Error> {
    if serial.is_empty() || !serial.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(Error::Usage(format!("{serial:?} is not the serial of a Jeton token")));
    }
    let token = directory.join(format!("{serial}.jeton"));
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
    fn a_serial_that_is_a_path_is_refused() {
        let directory = tempfile::tempdir().expect("the system has a temporary directory");
        assert!(matches!(delete_files(directory.path(), "../a1"), Err(Error::Usage(_))));
        assert!(matches!(delete_files(directory.path(), "a1"), Err(Error::Peer(_))));
    }
}
