//! The files of Jeton's tokens. PKCS#11 has no function that deletes a token, so the tool removes
//! the files. It knows only their documented place.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;

/// Returns the directory of Jeton's tokens: `JETON_DIR`, else `token-dir` in the file of
/// `JETON_CONF`, else a directory below the XDG data directory.
pub fn token_directory() -> Result<PathBuf, Error> {
    if let Some(directory) = variable("JETON_DIR") {
        return Ok(directory.into());
    }
    if let Some(directory) = configured()? {
        return Ok(directory);
    }
    let data = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".local/share")));
    let data =
        data.ok_or_else(|| Error::Usage("neither JETON_DIR, XDG_DATA_HOME nor HOME is set".to_owned()))?;
    Ok(data.join("jeton/tokens"))
}

/// Removes the files of the token with this serial and returns them.
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

/// The key of the configuration that this file needs.
#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "token-dir")]
    token_dir: Option<PathBuf>,
}

fn configured() -> Result<Option<PathBuf>, Error> {
    let Some(path) = variable("JETON_CONF") else { return Ok(None) };
    let text = fs::read_to_string(&path).map_err(Error::io(&path))?;
    let configuration: Configuration = toml::from_str(&text)
        .map_err(|error| Error::Failed(format!("{}: {error}", Path::new(&path).display())))?;
    Ok(configuration.token_dir)
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
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
        assert!(matches!(delete_files(directory.path(), "a1"), Err(Error::Io { .. })));
    }
}
