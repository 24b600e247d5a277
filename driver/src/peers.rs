//! The modules that the tool knows by name: their files, and a fresh token for each.
//!
//! A module that is not installed is no error. The tool uses the modules that it finds.

mod library;
mod seat;

pub use library::{KNOWN, Known, library_of};
pub use seat::{PIN, SO_PIN, Seat, free_slot, initialise, prepare_token};

use std::path::PathBuf;

use crate::Error;
use crate::pipeline::ModuleDescription;

/// The value of `--module`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// AWS-LC, called directly.
    InProcess,
    /// One of [`KNOWN`].
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

/// Returns the description of the baseline.
pub fn describe_in_process() -> ModuleDescription {
    ModuleDescription {
        description: "AWS-LC called directly".to_owned(),
        manufacturer: "through aws-lc-rs".to_owned(),
        version: aws_lc_rs::awslc_version().to_owned(),
        cryptoki: "-".to_owned(),
        library: None,
    }
}
