//! The choice of a module on the command line.

use std::path::PathBuf;

use jeton_peers::{KNOWN, Known};

use crate::Error;

/// The value of `--module`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// AWS-LC, called directly.
    InProcess,
    /// One of the known modules.
    Known(Known),
    /// Any other module.
    Path(PathBuf),
}

/// The name of the baseline.
pub const IN_PROCESS: &str = "in-process";

impl Selection {
    /// Reads a name or the path of an existing file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text == IN_PROCESS {
            return Ok(Self::InProcess);
        }
        if let Some(known) = Known::named(text) {
            return Ok(Self::Known(known));
        }
        let path = PathBuf::from(text);
        if path.is_file() {
            return Ok(Self::Path(path));
        }
        let names: Vec<_> = KNOWN.iter().map(|known| known.name()).collect();
        Err(Error::Usage(format!(
            "module {text:?} is neither a file nor one of {}, {IN_PROCESS}",
            names.join(", ")
        )))
    }

    /// Returns the name in the report.
    pub fn name(&self) -> String {
        match self {
            Self::InProcess => IN_PROCESS.to_owned(),
            Self::Known(known) => known.name().to_owned(),
            Self::Path(path) => path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }
}
