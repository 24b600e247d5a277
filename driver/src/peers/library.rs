//! Where the modules lie.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// A module that the tool knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Ours.
    Jeton,
    /// SoftHSM 2.
    SoftHsm2,
    /// NSS softokn.
    Nss,
}

/// All of them, in the order of the report.
pub const KNOWN: [Known; 3] = [Known::Jeton, Known::SoftHsm2, Known::Nss];

impl Known {
    /// The name on the command line and in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jeton => "jeton",
            Self::SoftHsm2 => "softhsm2",
            Self::Nss => "nss",
        }
    }

    /// The module called `name`.
    pub fn named(name: &str) -> Option<Self> {
        KNOWN.into_iter().find(|known| known.name() == name)
    }

    /// The library parameters of `C_Initialize` where the module is to be looked at, not worked with: NSS must be
    /// told that there is no database.
    pub const fn looking_parameters(self) -> Option<&'static str> {
        match self {
            Self::Jeton | Self::SoftHsm2 => None,
            Self::Nss => {
                Some("configdir='' certPrefix='' keyPrefix='' secmod='' flags=noCertDB,noModDB,readOnly")
            }
        }
    }

    /// The environment variable that says where the module lies.
    const fn variable(self) -> &'static str {
        match self {
            Self::Jeton => "JETON_MODULE",
            Self::SoftHsm2 => "SOFTHSM2_MODULE",
            Self::Nss => "NSS_MODULE",
        }
    }

    /// The file, as it is called in any of the directories.
    const fn file(self) -> &'static str {
        match self {
            Self::Jeton => "libjeton_pkcs11.so",
            Self::SoftHsm2 => "libsofthsm2.so",
            Self::Nss => "libsoftokn3.so",
        }
    }

    /// Where distributions put it, below each of [`LIBRARY_ROOTS`].
    const fn below(self) -> &'static [&'static str] {
        match self {
            Self::Jeton => &["", "pkcs11"],
            Self::SoftHsm2 => &["softhsm", "pkcs11", ""],
            Self::Nss => &["", "nss", "pkcs11"],
        }
    }

    /// The module's file, if it is on the machine: what the environment says, beside the tool (ours only), or
    /// where distributions put it.
    pub fn library(self) -> Option<PathBuf> {
        if let Some(path) = env::var_os(self.variable()) {
            return Some(path.into());
        }
        let beside = if self == Self::Jeton { beside_the_tool() } else { Vec::new() };
        let usual =
            LIBRARY_ROOTS.iter().flat_map(|root| self.below().iter().map(|sub| Path::new(root).join(sub)));
        beside
            .into_iter()
            .chain(usual)
            .map(|directory| directory.join(self.file()))
            .find(|file| file.is_file())
    }
}

const LIBRARY_ROOTS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/opt/homebrew/lib",
];

/// The file of a name or path, for commands that need one.
pub fn library_of(module: &str) -> Result<PathBuf, Error> {
    let Some(known) = Known::named(module) else { return Ok(module.into()) };
    known.library().ok_or_else(|| {
        let (name, file, variable) = (known.name(), known.file(), known.variable());
        Error::Usage(format!(
            "the module {name} was not found: no {file} in the usual places, and {variable} is unset"
        ))
    })
}

/// The directory of the executable, and for test executables and `cargo run` those around it.
fn beside_the_tool() -> Vec<PathBuf> {
    let executable = env::current_exe().unwrap_or_default();
    let Some(directory) = executable.parent() else { return Vec::new() };
    let parent = directory.parent().map(Path::to_owned);
    [Some(directory.to_owned()), parent, Some(directory.join("deps"))].into_iter().flatten().collect()
}
