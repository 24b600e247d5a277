//! Builds the modules that the bench measures: the one that users get, and the one with the null
//! backend.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our modules.
pub struct Artefacts {
    /// The module with both backends, built by `cargo build --release -p jeton-pkcs11`.
    pub module: PathBuf,
    /// The module with only the null backend.
    pub null: PathBuf,
}

const LIBRARY: &str = "libjeton_pkcs11.so";

impl Artefacts {
    /// Returns the paths of the built modules.
    pub fn of(target: &Path) -> Self {
        Self {
            module: target.join("release").join(LIBRARY),
            null: null_directory(target).join("release").join(LIBRARY),
        }
    }

    /// Builds the modules in two cargo runs, so that the features of the bench do not reach them.
    /// If `JETON_BENCH_BUILT` is set, takes the files that exist.
    pub fn build() -> Result<Self, String> {
        let target = target_directory();
        if env::var_os("JETON_BENCH_BUILT").is_some() {
            return Ok(Self::of(&target));
        }
        let mut ours = vec!["build", "--release", "-p", "jeton-pkcs11"];
        if cfg!(feature = "postgresql") {
            ours.extend(["--features", "jeton-pkcs11/postgresql"]);
        }
        ours.push("--target-dir");
        cargo(&ours, &target)?;
        let null = ["build", "--release", "-p", "jeton-pkcs11", "--no-default-features", "--features"];
        let null: Vec<_> = null.into_iter().chain(["null-backend", "--target-dir"]).collect();
        cargo(&null, &null_directory(&target))?;
        Ok(Self::of(&target))
    }
}

fn null_directory(target: &Path) -> PathBuf {
    target.join("null-backend")
}

fn cargo(arguments: &[&str], target: &Path) -> Result<(), String> {
    println!("cargo {} {}", arguments.join(" "), target.display());
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).arg(target).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns cargo's target directory, found from the path of this executable.
pub fn target_directory() -> PathBuf {
    let executable = env::current_exe().unwrap_or_default();
    let above = executable.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file());
    above.map_or_else(|| root().join("target"), Path::to_owned)
}

/// Returns the directory of criterion's data, where the bench also keeps its own files.
pub fn data_directory() -> PathBuf {
    target_directory().join("criterion")
}

/// Returns the library parameters of one of our modules, with its tokens in this directory. The
/// PIN's key derivation is set to its minimum, because it would hide all other costs.
pub fn parameters(directory: &Path, backend: &str) -> String {
    let directory = directory.display();
    format!("token-dir = '{directory}', backend = '{backend}', pin = {{ memory-kib = 8, passes = 1 }}")
}
