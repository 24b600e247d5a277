//! Logs a failure of SQLite or of the operating system, and converts it to an error of the core.

use std::path::Path;

use rusqlite::ErrorCode;
use tracing::{error, warn};

use super::read_only::is_out_of_room;
use crate::error::Error;
use crate::store::descriptors;

pub(super) fn log_failure(path: &Path, what: &str, reason: &rusqlite::Error) -> Error {
    if is_shortage(reason) {
        return log_shortage(path, what);
    }
    error!(file = %path.display(), "store, {what}: {reason}");
    match reason.sqlite_error_code() {
        _ if is_out_of_room(reason) => Error::DeviceMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::TokenWriteProtected,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::TokenNotRecognized,
        // A limit of `schema::connect`.
        Some(ErrorCode::OperationInterrupted | ErrorCode::TooBig) => Error::TokenNotRecognized,
        Some(ErrorCode::OutOfMemory) => Error::HostMemory,
        _ => Error::DeviceError,
    }
}

pub(super) fn log_io_failure(path: &Path, what: &str, reason: &std::io::Error) -> Error {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    if descriptors::is_shortage(reason) {
        return log_shortage(path, what);
    }
    error!(file = %path.display(), "store, {what}: {reason}");
    match reason.kind() {
        StorageFull | QuotaExceeded => Error::DeviceMemory,
        PermissionDenied | ReadOnlyFilesystem => Error::TokenWriteProtected,
        _ => Error::DeviceError,
    }
}

/// Logs why a file cannot be opened as a token: at level `warn` if this user may not read it, as it
/// may be the token of another user. Returns `TokenNotRecognized` if it is not a token, and another
/// error if the system could not read it.
pub(super) fn log_not_a_token(path: &Path, reason: &std::io::Error) -> Error {
    if reason.kind() == std::io::ErrorKind::PermissionDenied {
        warn!(file = %path.display(), "store, open: {reason}");
        return Error::DeviceError;
    }
    match (log_io_failure(path, "open", reason), reason.raw_os_error()) {
        (Error::HostMemory, _) => Error::HostMemory,
        (_, None | Some(libc::ENOENT)) => Error::TokenNotRecognized,
        _ => Error::DeviceError,
    }
}

/// Returns whether SQLite failed because no file descriptors are left.
pub(super) fn is_shortage(reason: &rusqlite::Error) -> bool {
    let opens =
        matches!(reason.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure));
    opens && descriptors::ran_out()
}

/// Logs that no file descriptors are left. The call fails with `CKR_HOST_MEMORY`.
fn log_shortage(path: &Path, what: &str) -> Error {
    error!(file = %path.display(), "store, {what}: {}", descriptors::limit());
    Error::HostMemory
}
