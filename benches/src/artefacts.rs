//! What the bench builds before it measures: the module as it is shipped, and the module with the null backend.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The modules of this tree.
pub struct Artefacts {
    /// With both backends, as `cargo build --release -p jeton-pkcs11` makes it.
    pub module: PathBuf,
    /// With the null backend alone.
    pub null: PathBuf,
}

const LIBRARY: &str = "libjeton_pkcs11.so";

impl Artefacts {
    /// Where they lie once they are built.
    pub fn of(target: &Path) -> Self {
        Self {
            module: target.join("release").join(LIBRARY),
            null: null_directory(target).join("release").join(LIBRARY),
        }
    }

    /// Builds them, each in its own features: what the bench itself links must not reach them. With
    /// `JETON_BENCH_BUILT` set they are taken as they lie there.
    pub fn build() -> Result<Self, String> {
        let target = target_directory();
        if env::var_os("JETON_BENCH_BUILT").is_some() {
            return Ok(Self::of(&target));
        }
        cargo(&["build", "--release", "-p", "jeton-pkcs11", "--target-dir"], &target)?;
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

/// The root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo's target directory: the one that this executable lies in.
pub fn target_directory() -> PathBuf {
    let executable = env::current_exe().unwrap_or_default();
    let above = executable.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file());
    above.map_or_else(|| root().join("target"), Path::to_owned)
}

/// Where criterion keeps its data, and the bench what it found out beside it.
pub fn data_directory() -> PathBuf {
    target_directory().join("criterion")
}
