//! Environment variables, as far as the process may trust them.
//!
//! The user who starts a setuid program chooses its environment. Such a program would read a
//! configuration of this user's choice. It would write log files where the user has no right to
//! write. So the module reads no variable in such a program, and p11-kit and NSS read none either.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the value of an environment variable; `None` if it is unset or empty, or if the process
/// runs with raised privileges.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    if is_privileged() {
        return None;
    }
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the value of an environment variable as a path.
pub(super) fn path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// Returns the user's home directory from `HOME` or the user database; `None` with raised
/// privileges.
pub(super) fn home() -> Option<PathBuf> {
    if is_privileged() { None } else { env::home_dir() }
}

/// Returns whether the process has more rights than the user who started it: a setuid or setgid
/// program, or one with file capabilities. The kernel says so in `AT_SECURE`, which
/// secure_getenv(3) reads too.
#[allow(unsafe_code, reason = "getauxval has no safe form in a released crate")]
pub(super) fn is_privileged() -> bool {
    // SAFETY: getauxval(3) takes a number and has no other precondition.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
