//! Runs programs in tests, finds those that this machine has, and says which tests are skipped.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

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

/// Checks that a text, which is usually the output of a command, contains this part.
pub fn says(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

/// Programs that tests start, with their Debian packages. A test calls [`has`] before it starts one
/// of them. `tests/sources.rs` finds programs that are missing here.
pub const PROGRAMS: [(&str, &str); 19] = [
    ("age", "age"),
    ("age-keygen", "age"),
    ("certtool", "gnutls-bin"),
    ("certutil", "libnss3-tools"),
    ("etcd", "etcd-server"),
    ("faketime", "faketime"),
    ("go", "golang-go"),
    ("jq", "jq"),
    ("mke2fs", "e2fsprogs"),
    ("nginx", "nginx-light"),
    ("openssl", "openssl"),
    ("patroni", "patroni"),
    ("pk12util", "libnss3-tools"),
    ("pkcs11-tool", "opensc"),
    ("promtool", "prometheus"),
    ("python3", "python3"),
    ("softhsm2-util", "softhsm2"),
    ("ssh-keygen", "openssh-client"),
    ("systemd-analyze", "systemd"),
];

/// Names the Debian packages that a test must not miss, with spaces between them. `.ci/common` sets
/// it to those that it installs.
const INSTALLED: &str = "JETON_TEST_INSTALLED";

/// The test that runs now, in a program without the test runner.
static RUNNING: Mutex<Option<&str>> = Mutex::new(None);

/// Names the test that runs now, in a program without the test runner.
pub fn begin(test: &'static str) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(test);
}

/// Prints that the running test is skipped, and why. If the reason begins with "only root", CI runs
/// the test as root too.
pub fn skip(reason: impl Display) {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    // cargo adds a hash to the name.
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let thread = std::thread::current();
    let running = *RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let test = running.or(thread.name()).unwrap_or("main");
    let line = format!("SKIPPED {program} {test}: {reason}\n");
    // Not with eprintln!, because the test runner captures its output.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
}

/// Prints that the running test is skipped, because these Debian packages are missing. Panics if CI
/// installed them all.
pub fn skip_without(what: &str, packages: &[&str]) {
    let installed = std::env::var(INSTALLED).unwrap_or_default();
    let is_installed = |package: &&str| installed.split_whitespace().any(|one| one == *package);
    let reason = format!("no {what}: apt-get install {}", packages.join(" "));
    assert!(!packages.iter().all(is_installed), "{reason}, which {INSTALLED} names");
    skip(reason);
}

/// Returns the module. If it is not installed, prints that the test is skipped.
pub fn peer(known: Known) -> Option<PathBuf> {
    let library = known.library();
    if library.is_none() {
        match known {
            Known::SoftHsm2 => skip_without("SoftHSMv2", &["softhsm2"]),
            Known::Nss => skip_without("NSS", &["libnss3"]),
            Known::Jeton | Known::JetonAgent => {
                skip(format_args!("{} is not built: cargo test --workspace builds it", known.name()));
            }
            Known::Kryoptic | Known::Craton => {
                skip(format_args!("no {}: client/peers/build builds it", known.name()));
            }
        }
    }
    library
}

/// Returns the names of the baseline and of these modules, except those that are not installed.
pub fn modules(known: &[Known]) -> Vec<&'static str> {
    let installed = known.iter().filter(|known| peer(**known).is_some());
    ["in-process"].into_iter().chain(installed.map(|known| known.name())).collect()
}

/// Returns whether a program is installed. If it is not, prints that the test is skipped.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !there {
        let (_, package) = PROGRAMS.iter().find(|(name, _)| *name == program).expect("a row of PROGRAMS");
        skip_without(program, &[package]);
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
