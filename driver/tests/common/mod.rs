//! Runs the driver as a process.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

use std::process::Command;

pub use jeton_programs::{Scratch, fails, has, modules, peer, run, says, succeed};

pub fn driver<I: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jeton-driver"));
    command.args(arguments);
    command
}
