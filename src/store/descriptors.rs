//! Notices that the process or the system has no file descriptors left. SQLite's error does not
//! show this: it only says that a file cannot be opened.

use std::cell::Cell;
use std::fs::File;
use std::io::Error;

use rustix::process::{Resource, getrlimit};

thread_local! {
    /// Whether SQLite failed to open a file in this thread because no descriptors were left.
    static SHORTAGE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this error means that no descriptors are left.
pub(super) fn is_shortage(reason: &Error) -> bool {
    matches!(reason.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Notes the error of an open(2) of SQLite if no descriptors are left.
#[cfg(target_os = "linux")]
pub(super) fn note(reason: &Error) {
    if is_shortage(reason) {
        SHORTAGE.set(true);
    }
}

/// Forgets a shortage, or notes it again, so that the next call of [`ran_out`] returns true.
pub(super) fn set_shortage(is: bool) {
    SHORTAGE.set(is);
}

/// Returns whether SQLite may have failed in this thread because no descriptors are left. Also
/// tries to open a file: on systems other than Linux, SQLite opens files without a call of
/// [`note`].
pub(super) fn ran_out() -> bool {
    SHORTAGE.take() || File::open("/dev/null").is_err_and(|reason| is_shortage(&reason))
}

/// Describes the limit of the process for the log.
pub(super) fn limit() -> String {
    let limit = getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |limit| limit.to_string());
    format!(
        "no file descriptors are left: the limit on open files (RLIMIT_NOFILE) is {limit}; raise it, or lower \
         [store] open-tokens"
    )
}
