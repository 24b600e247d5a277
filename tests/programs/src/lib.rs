//! Runs programs in tests, and finds those that this machine has.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jeton_peers::Known;

/// Runs a command. Returns its exit code and its output.
pub fn run(command: &mut Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (status.code().unwrap_or(-1), text)
}

/// Runs a command that must succeed. Returns its output.
pub fn succeed(command: &mut Command) -> String {
    let (code, text) = run(command);
    assert_eq!(code, 0, "{command:?}\n{text}");
    text
}

/// Runs a command that must fail with this exit status. Returns its output.
pub fn fails(status: i32, command: &mut Command) -> String {
    let (code, text) = run(command);
    assert_eq!(code, status, "{command:?}\n{text}");
    text
}

/// Returns the module. If it is not installed, prints that the test is skipped.
pub fn peer(known: Known) -> Option<PathBuf> {
    let library = known.library();
    if library.is_none() {
        println!("skipped: {} is not installed", known.name());
    }
    library
}

/// Returns the names of the baseline and of these modules, except those that are not installed.
pub fn modules(known: &[Known]) -> Vec<&'static str> {
    let installed = known.iter().filter(|known| peer(**known).is_some());
    ["in-process"].into_iter().chain(installed.map(|known| known.name())).collect()
}

/// Returns whether a program is installed. If it is not, prints that the test is skipped.
pub fn has(program: &str, argument: &str) -> bool {
    let there = Command::new(program).arg(argument).output().is_ok();
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

/// Reads a number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
}

/// A temporary directory, and paths in it.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Creates an empty directory.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("the system has a temporary directory"))
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file in it, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a temporary path is UTF-8").to_owned()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
