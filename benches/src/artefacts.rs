//! The modules that the bench measures: the one that users get, and the one with the null backend.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::AnyError;

pub struct Artefacts {
    /// The module with both backends. The benches depend on it, so cargo builds it with them.
    pub module: PathBuf,
    /// The module with only the null backend, built by [`Artefacts::with_null`].
    pub null: PathBuf,
}

const LIBRARY: &str = "libjeton_pkcs11.so";
/// SQLite without optimisation, because the null backend shows the cost of calls that do not reach
/// the store. This saves half a minute.
const FAST_SQLITE: &str = "profile.release.package.libsqlite3-sys.opt-level=0";

impl Artefacts {
    /// Returns the paths of the modules in cargo's target directory.
    pub fn of(target: &Path) -> Self {
        Self {
            module: target.join("release/deps").join(LIBRARY),
            null: target.join("null-backend/release").join(LIBRARY),
        }
    }

    /// Returns the modules, after a build of the one with the null backend.
    pub fn with_null() -> Result<Self, AnyError> {
        let target = target_directory();
        let arguments = ["build", "--release", "-p", "jeton-pkcs11", "--no-default-features"];
        let more = ["--features", "null-backend", "--config", FAST_SQLITE, "--target-dir"];
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(arguments).args(more).arg(target.join("null-backend")).current_dir(root());
        println!("{command:?}");
        match command.status() {
            Ok(status) if status.success() => Ok(Self::of(&target)),
            Ok(status) => Err(format!("{command:?}: {status}").into()),
            Err(error) => Err(format!("cargo: {error}").into()),
        }
    }

    /// Returns the modules. The one with the null backend may be missing.
    pub fn without_null() -> Self {
        Self::of(&target_directory())
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn target_directory() -> PathBuf {
    let executable = env::current_exe().unwrap_or_default();
    let above = executable.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file());
    above.map_or_else(|| root().join("target"), Path::to_owned)
}

/// Returns the directory of criterion's data, where the bench also keeps its own files.
pub fn data_directory() -> PathBuf {
    target_directory().join("criterion")
}

/// Makes a temporary directory below cargo's target directory, on the disk that the bench measures.
pub fn temporary() -> Result<tempfile::TempDir, AnyError> {
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(target_directory())?)
}

pub fn write_page(name: &str, text: &str) -> Result<(), AnyError> {
    let path = root().join("docs/benchmarks").join(name);
    Ok(fs::write(&path, text).map_err(|reason| format!("{}: {reason}", path.display()))?)
}

/// Returns the library parameters of one of our modules, with its tokens in this directory. The
/// PIN's key derivation is set to its minimum, because it would hide all other costs.
pub fn parameters(directory: &Path, backend: &str) -> String {
    let directory = directory.display();
    format!("token-dir = '{directory}', backend = '{backend}', pin = {{ memory-kib = 8, passes = 1 }}")
}
