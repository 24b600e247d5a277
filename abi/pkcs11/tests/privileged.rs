//! A setuid program that loads the module: the user who starts it controls the environment, and
//! gains nothing from it.
//!
//! This binary copies itself, makes the copy setuid root, and starts it as an unprivileged user
//! (65534). This needs root; without it the test prints that it was skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11")]
#![allow(non_snake_case, reason = "fields have the names of the specification")]

#[macro_use]
mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr::null_mut;

use cryptoki_sys::*;

const UNPRIVILEGED: u32 = 65534;

fn main() {
    // The role is the library parameters that the started program passes to the module.
    if let Some(parameters) = jeton_child::role::<String>() {
        return initialize(&parameters.expect("a role"));
    }
    let scratch = Scratch::new();
    let Some(program) = scratch.setuid_copy() else {
        return jeton_programs::skip("only root can make a setuid program");
    };
    environment_is_ignored_with_raised_privileges(&scratch, &program);
    environment_is_read_without_raised_privileges(&scratch);
    configuration_is_not_quoted(&scratch);
    println!("a setuid host ignores the environment: 3 cases passed");
}

fn environment_is_ignored_with_raised_privileges(scratch: &Scratch, program: &Path) {
    let directory = scratch.0.join("tokens");
    let right = format!("token-dir = '{}'", directory.display());
    let output = scratch.run(program, &right);
    assert_eq!(answer(&output), CKR_OK.to_string(), "{output:?}");
    let written =
        ["from-conf.log", "from-conf.jsonl", "from-dir", "from-home"].map(|name| scratch.0.join(name));
    for path in &written {
        assert!(!path.exists(), "the environment created {}", path.display());
    }
    // The environment is ignored, and the library parameters name no token directory.
    let output = scratch.run(program, "");
    assert_eq!(answer(&output), CKR_GENERAL_ERROR.to_string(), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("raised privileges"), "{log}");
    assert!(!log.contains("from-conf"), "{log}");
}

fn environment_is_read_without_raised_privileges(scratch: &Scratch) {
    let output = scratch.run(&std::env::current_exe().expect("a path"), "");
    assert_eq!(answer(&output), CKR_OK.to_string(), "{output:?}");
    assert!(scratch.0.join("from-conf.log").exists(), "the test's configuration must have an effect");
}

fn configuration_is_not_quoted(scratch: &Scratch) {
    fs::write(scratch.configuration(), "root:$y$secret:19000:0:99999:7:::\n").expect("a file");
    let output = scratch.run(&std::env::current_exe().expect("a path"), "");
    assert_eq!(answer(&output), CKR_GENERAL_ERROR.to_string(), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("line 1") && !log.contains("secret"), "{log}");
}

/// Returns the last line that the program printed: the return code of `C_Initialize`.
fn answer(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

/// The part that runs in the started program.
fn initialize(parameters: &str) {
    let parameters = std::ffi::CString::new(parameters).expect("no zero byte");
    let mut arguments = jeton_names::arguments(CKF_OS_LOCKING_OK, parameters.as_ptr().cast_mut().cast());
    let rv = rv!(C_Initialize((&raw mut arguments).cast()));
    let mut count = 0;
    rv!(C_GetSlotList(CK_FALSE, null_mut(), &raw mut count));
    println!("{rv}");
}

/// A temporary directory, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("jeton-privileged-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        let scratch = Self(path);
        let log = scratch.0.join("from-conf.log");
        let audit = scratch.0.join("from-conf.jsonl");
        let text = format!(
            "log.file = '{}'\nlog.level = 'info'\naudit.file = '{}'\n",
            log.display(),
            audit.display()
        );
        fs::write(scratch.configuration(), text).expect("a file");
        scratch
    }

    fn configuration(&self) -> PathBuf {
        self.0.join("jeton.toml")
    }

    /// Returns a setuid copy of this program. `None` if this process is not root.
    fn setuid_copy(&self) -> Option<PathBuf> {
        let copy = self.0.join("setuid");
        fs::copy(std::env::current_exe().expect("a path"), &copy).expect("a copy");
        chown(&copy, Some(0), Some(0)).ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("a mode");
        Some(copy)
    }

    /// Runs a program with a hostile environment: the setuid copy as the unprivileged user, this
    /// program as the current user.
    fn run(&self, program: &Path, parameters: &str) -> Output {
        let mut command = jeton_child::in_role(Command::new(program), &parameters);
        command.env("JETON_CONF", self.configuration());
        command.env("JETON_DIR", self.0.join("from-dir")).env("HOME", self.0.join("from-home"));
        command.env("XDG_DATA_HOME", self.0.join("from-home"));
        if program.starts_with(&self.0) {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command.output().expect("a process")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A remaining temporary directory is harmless.
        let _ = fs::remove_dir_all(&self.0);
    }
}
