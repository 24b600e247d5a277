//! The location of a sealing key: `[store] sealing-key`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::environment;

/// The location of a sealing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealingSource {
    /// `file:/path`: a file that only its owner may read.
    File(PathBuf),
    /// `credential:NAME`: a file in the directory of systemd's credentials.
    Credential(String),
    /// `keyring:NAME`: a key of type "user" in the kernel's keyrings.
    Keyring(String),
}

impl FromStr for SealingSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') => Ok(Self::File(path.into())),
            Some(("file", _)) => Err("file: needs an absolute path"),
            // systemd.exec(5): the name of a credential is a file name.
            Some(("credential", "" | "." | "..")) => Err("credential: needs a file name"),
            Some(("credential", name)) if name.contains('/') => Err("credential: needs a file name"),
            Some(("credential", name)) => Ok(Self::Credential(name.to_owned())),
            Some(("keyring", name)) if !name.is_empty() => Ok(Self::Keyring(name.to_owned())),
            Some(("keyring", _)) => Err("keyring: needs the name of a key"),
            _ => Err("must be file:/PATH, credential:NAME or keyring:NAME"),
        }
    }
}

impl fmt::Display for SealingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Credential(name) => write!(f, "credential:{name}"),
            Self::Keyring(name) => write!(f, "keyring:{name}"),
        }
    }
}

/// Returns the directory of systemd's credentials. Returns `None` in a process with raised
/// privileges, because there the user could choose the directory.
pub(crate) fn credentials() -> Option<PathBuf> {
    environment::path("CREDENTIALS_DIRECTORY").filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_parsed_and_written_in_the_same_form() {
        for text in ["file:/etc/jeton.key", "credential:jeton", "keyring:jeton:main"] {
            let source: SealingSource = text.parse().expect("a source");
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn a_malformed_source_is_refused() {
        for text in [
            "",
            "/a",
            "file:",
            "file:a",
            "credential:",
            "credential:../a",
            "credential:..",
            "keyring:",
            "tpm:a",
        ] {
            assert!(text.parse::<SealingSource>().is_err(), "{text}");
        }
    }
}
