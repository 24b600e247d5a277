//! The choice of a module on the command line.

use std::path::PathBuf;

use jeton_peers::{KNOWN, Known, UNPACKAGED};

use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    InProcess,
    /// OpenSSL of the system, called directly.
    OpenSsl,
    Known(Known),
    /// Jeton with its RustCrypto backend.
    RustCrypto,
    /// Jeton, which signs in asynchronous sessions.
    Asynchronous,
    Path(PathBuf),
}

pub const IN_PROCESS: &str = "in-process";
/// The name of the baseline for people.
pub(crate) const DIRECTLY: &str = "AWS-LC directly";
/// The name of OpenSSL, called directly.
pub(crate) const OPENSSL: &str = "openssl";
/// The name of Jeton with its RustCrypto backend, as in the benches.
const RUSTCRYPTO: &str = "jeton-rc";
/// The name of Jeton with asynchronous sessions.
const ASYNCHRONOUS: &str = "jeton-async";

/// Returns the name of a module for people.
pub(crate) fn shown(module: &str) -> &str {
    match module {
        IN_PROCESS => DIRECTLY,
        ASYNCHRONOUS => "jeton, asynchronous",
        name => name,
    }
}

impl Selection {
    /// Reads a name or the path of an existing file.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            IN_PROCESS => return Ok(Self::InProcess),
            OPENSSL => return Ok(Self::OpenSsl),
            RUSTCRYPTO => return Ok(Self::RustCrypto),
            ASYNCHRONOUS => return Ok(Self::Asynchronous),
            _ => {}
        }
        if let Some(known) = Known::named(text) {
            return Ok(Self::Known(known));
        }
        let path = PathBuf::from(text);
        if path.is_file() {
            return Ok(Self::Path(path));
        }
        let known = KNOWN.iter().chain(&UNPACKAGED).chain(&[Known::JetonAgent]);
        let names: Vec<_> = known.map(|known| known.name()).collect();
        Err(Error::Usage(format!(
            "module {text:?} is neither a file nor one of {}, {RUSTCRYPTO}, {ASYNCHRONOUS}, {OPENSSL}, \
             {IN_PROCESS}",
            names.join(", ")
        )))
    }

    /// Returns every module of this machine: the baseline, and the known modules that are found.
    /// OpenSSL and Jeton with RustCrypto are included if this tool was built with them. The second
    /// value has the names of absent modules.
    pub fn all() -> (Vec<Self>, Vec<String>) {
        let mut found = vec![Self::InProcess];
        let mut absent = Vec::new();
        if cfg!(feature = "openssl") {
            found.push(Self::OpenSsl);
        } else {
            absent.push(OPENSSL.to_owned());
        }
        for known in KNOWN.into_iter().chain(UNPACKAGED) {
            if known.library().is_none() {
                absent.push(known.name().to_owned());
                continue;
            }
            found.push(Self::Known(known));
            if known == Known::Jeton && cfg!(feature = "rustcrypto") {
                found.push(Self::RustCrypto);
            }
        }
        (found, absent)
    }

    pub fn name(&self) -> String {
        match self {
            Self::InProcess => IN_PROCESS.to_owned(),
            Self::OpenSsl => OPENSSL.to_owned(),
            Self::RustCrypto => RUSTCRYPTO.to_owned(),
            Self::Asynchronous => ASYNCHRONOUS.to_owned(),
            Self::Known(known) => known.name().to_owned(),
            Self::Path(path) => path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }
}
