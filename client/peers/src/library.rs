//! Finds the files of the known modules.

use std::env;
use std::path::{Path, PathBuf};

use crate::Error;

/// A module that the tool knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Jeton.
    Jeton,
    /// SoftHSM 2.
    SoftHsm2,
    /// NSS softokn.
    Nss,
    /// Kryoptic. No Debian package has it. `jeton-driver pipeline` runs it only if `--module` names
    /// it or is `all`.
    Kryoptic,
    /// Jeton through its agent: `libjeton_client.so`. `jeton-driver pipeline` runs it only if
    /// `--module` names it.
    JetonAgent,
    /// Craton HSM. No Debian package has it. `jeton-driver pipeline` runs it only if `--module`
    /// names it or is `all`.
    Craton,
}

/// The modules that the tool runs by default, in the order of the report.
pub const KNOWN: [Known; 3] = [Known::Jeton, Known::SoftHsm2, Known::Nss];

/// The modules that Debian does not package. `client/peers/build` builds them.
pub const UNPACKAGED: [Known; 2] = [Known::Kryoptic, Known::Craton];

/// What is known of a module.
struct Row {
    /// The name on the command line and in the report.
    name: &'static str,
    /// The environment variable that names the module's file.
    variable: &'static str,
    file: &'static str,
    /// The subdirectories of each of [`LIBRARY_ROOTS`] in which distributions put the file.
    below: &'static [&'static str],
}

impl Known {
    const fn row(self) -> Row {
        let (name, variable, file, below): (_, _, _, &[_]) = match self {
            Self::Jeton => ("jeton", "JETON_MODULE", "libjeton_pkcs11.so", &["", "pkcs11"]),
            Self::SoftHsm2 => ("softhsm2", "SOFTHSM2_MODULE", "libsofthsm2.so", &["softhsm", "pkcs11", ""]),
            Self::Nss => ("nss", "NSS_MODULE", "libsoftokn3.so", &["", "nss", "pkcs11"]),
            Self::Kryoptic => ("kryoptic", "KRYOPTIC_MODULE", "libkryoptic_pkcs11.so", &["", "pkcs11"]),
            Self::Craton => ("craton", "CRATON_MODULE", "libcraton_hsm.so", &["", "pkcs11"]),
            Self::JetonAgent => ("jeton-agent", "JETON_CLIENT_MODULE", "libjeton_client.so", &["", "pkcs11"]),
        };
        Row { name, variable, file, below }
    }

    /// Returns the name on the command line and in the report.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the module with this name.
    pub fn named(name: &str) -> Option<Self> {
        KNOWN.into_iter().chain(UNPACKAGED).chain([Self::JetonAgent]).find(|known| known.name() == name)
    }

    /// Returns the library parameters of `C_Initialize` with which the module starts without a
    /// token. NSS must know that there is no database.
    pub const fn looking_parameters(self) -> Option<&'static str> {
        match self {
            Self::Nss => {
                Some("configdir='' certPrefix='' keyPrefix='' secmod='' flags=noCertDB,noModDB,readOnly")
            }
            _ => None,
        }
    }

    /// Returns whether the module is Jeton, in process or through the agent.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Jeton | Self::JetonAgent)
    }

    /// Returns the path in the environment variable, if it is set. Otherwise returns the module's
    /// file, if it exists: beside the tool (Jeton and its client), or in a directory of
    /// distributions.
    pub fn library(self) -> Option<PathBuf> {
        let row = self.row();
        if let Some(path) = env::var_os(row.variable).filter(|path| !path.is_empty()) {
            return Some(path.into());
        }
        let beside = if self.is_ours() { beside_the_tool() } else { Vec::new() };
        let usual =
            LIBRARY_ROOTS.iter().flat_map(|root| row.below.iter().map(|sub| Path::new(root).join(sub)));
        beside.into_iter().chain(usual).map(|directory| directory.join(row.file)).find(|file| file.is_file())
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

/// Returns the file of the known module with this name. Fails if the file is not found. If no known
/// module has this name, returns the text as a path.
pub fn library_of(module: &str) -> Result<PathBuf, Error> {
    let Some(known) = Known::named(module) else {
        // A file name without a directory is one that the dynamic linker finds.
        if !module.contains(['/', '.']) {
            let names: Vec<_> =
                KNOWN.into_iter().chain(UNPACKAGED).chain([Known::JetonAgent]).map(Known::name).collect();
            let names = names.join(", ");
            return Err(Error::Message(format!(
                "unknown module {module:?}; known are {names}, or the path of a file"
            )));
        }
        return Ok(module.into());
    };
    known.library().ok_or_else(|| {
        let Row { name, file, variable, .. } = known.row();
        Error::Message(format!(
            "the module {name} was not found: no {file} in the usual places, and {variable} is unset"
        ))
    })
}

/// Returns the program of the agent: beside the tool, or in the path.
pub(crate) fn agent_program() -> PathBuf {
    const NAME: &str = "jeton-agent";
    let beside = beside_the_tool().into_iter().map(|directory| directory.join(NAME));
    beside.into_iter().find(|file| file.is_file()).unwrap_or_else(|| NAME.into())
}

/// Returns the directory of the executable, its parent and its subdirectory `deps`. The module of a
/// test executable is in the parent, and the one of `cargo run` may be in `deps`.
fn beside_the_tool() -> Vec<PathBuf> {
    let executable = env::current_exe().unwrap_or_default();
    let Some(directory) = executable.parent() else { return Vec::new() };
    let parent = directory.parent().map(Path::to_owned);
    [Some(directory.to_owned()), parent, Some(directory.join("deps"))].into_iter().flatten().collect()
}
