//! Reads a token file if SQLite cannot create the log and its index beside the file. The reason is
//! a read-only file system, a directory without write permission, or a full disk.
//!
//! SQLite reads such a file as `immutable`: without locks, and without checks for changes. That is
//! correct as long as no process writes. So the file's stamp is compared before each read, and
//! after each read except the search for damage. A file whose write-ahead log has content is not
//! read in this way, because the last commits may be only in the log.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::file_identity::Stamp;
use super::schema;
use crate::error::Error;

/// The state of a file that is open read-only.
pub(super) struct Still {
    /// The stamp of the file when it was opened; `None` if it could not be opened.
    pub(super) stamp: Option<Stamp>,
    /// The error that every write returns.
    pub(super) reason: Error,
}

impl Still {
    /// Opens the file read-only if SQLite had no permission or no disk space to open it. Returns
    /// `None` if `reason` is another error, if the file has a write-ahead log with content, or if
    /// it cannot be read.
    pub(super) fn open(path: &Path, reason: &rusqlite::Error) -> Option<(Connection, Self)> {
        let reason = if is_out_of_room(reason) {
            Error::DeviceMemory
        } else if cannot_write(reason) {
            Error::TokenWriteProtected
        } else {
            return None;
        };
        let stamp = Stamp::of(path)?;
        if stamp.journal_len() > 0 {
            return None;
        }
        Some((connection(path).ok()?, Self { stamp: Some(stamp), reason }))
    }

    /// Returns whether the file is unchanged since it was opened.
    pub(super) fn is_current(&self, path: &Path) -> bool {
        Stamp::of(path) == self.stamp
    }
}

/// Opens a read-only connection.
fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = schema::connect(uri(path), flags)?;
    connection.set_prepared_statement_cache_capacity(32);
    schema::verify(&connection)?;
    schema::lift_limits(&mut connection)?;
    Ok(connection)
}

fn uri(path: &Path) -> OsString {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(*byte),
            _ => uri.extend(format!("%{byte:02x}").bytes()),
        }
    }
    uri.extend(b"?immutable=1");
    OsString::from_vec(uri)
}

/// Returns whether SQLite failed because the disk is full.
pub(super) fn is_out_of_room(reason: &rusqlite::Error) -> bool {
    // SQLite creates the index file of the log with its full size, and `store::fcntl_locks` gives
    // it its blocks before it is mapped. So these errors mean a full disk.
    let index = |error: &ffi::Error| {
        [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMMAP].contains(&error.extended_code)
    };
    reason.sqlite_error().is_some_and(index) || reason.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Returns whether SQLite failed because it may not create or write a file.
fn cannot_write(reason: &rusqlite::Error) -> bool {
    use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(reason.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_special_characters_is_opened_by_its_uri() {
        let uri = uri(Path::new("/a dir/50%?#.jeton"));
        assert_eq!(uri, "file:/a%20dir/50%25%3f%23.jeton?immutable=1");
    }
}
