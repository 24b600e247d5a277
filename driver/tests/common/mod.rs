//! Runs the tool as a process, and finds other programs and modules of the machine.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod migration;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jeton_peers::Known;

/// Returns a command that runs the tool with these arguments.
pub fn jeton<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jeton"));
    command.args(arguments);
    command
}

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

/// Copies the tool to this path, with `cp`. If the test itself wrote the file, a child that another
/// thread forks meanwhile could hold it open, and the file could not be executed.
pub fn copy_tool(to: impl AsRef<Path>) {
    succeed(Command::new("cp").arg(env!("CARGO_BIN_EXE_jeton")).arg(to.as_ref()));
}

/// Returns the module. If it is not installed, prints that the test is skipped.
pub fn peer(known: Known) -> Option<PathBuf> {
    let library = known.library();
    if library.is_none() {
        println!("skipped: {} is not installed", known.name());
    }
    library
}

/// Returns whether a program is installed. If it is not, prints that the test is skipped.
pub fn has(program: &str, argument: &str) -> bool {
    let there = Command::new(program).arg(argument).output().is_ok();
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
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
