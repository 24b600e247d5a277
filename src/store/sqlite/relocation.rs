//! Moves a flat token into a directory of its own.

use std::fs::Metadata;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::open::expect_token_file;
use super::rows::read_header;
use super::{layout, schema};
use crate::file;
use crate::store::{is_serial, permissions};

/// How long the move waits until no process has the token open.
const WAIT: Duration = Duration::from_secs(1);

/// Moves the flat token at `path` into a directory of its own. Returns its serial number and the
/// new path. Fails if a process has the token open.
///
/// One rename of the token file moves the token. So a crash leaves it in one of the two places, and
/// there it opens: before the rename, all changes are copied from the log into the file.
pub(crate) fn relocate(path: &Path) -> Result<(String, PathBuf)> {
    if layout::own_directory(path).is_some() {
        return Err(Error::other("this token has a directory of its own"));
    }
    expect_token_file(path)?;
    let (connection, serial) = open_alone(path).map_err(explain)?;
    let tokens = path.parent().unwrap_or(Path::new("."));
    let own = layout::path_of(tokens, &serial);
    make_directory(path, tokens, &own)?;
    let moved = rename(path, &own).and_then(|()| layout::sync_directories(&own));
    if let Err(reason) = moved {
        layout::remove_empty_directory(&own);
        return Err(reason);
    }
    // The log is empty. A process that opened the file under its old name waits for the lock, and
    // then finds no such name.
    file::remove_beside(path, &["-wal", "-shm", "-lock"]);
    connection.close().map_err(|(_, reason)| explain(reason))?;
    Ok((serial, own))
}

/// Opens the token file so that no other process can, and empties its log. Returns the serial
/// number.
fn open_alone(path: &Path) -> rusqlite::Result<(Connection, String)> {
    let connection = schema::connect_alone(path, WAIT)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    schema::verify(&connection)?;
    let header = read_header(&connection)?.ok().flatten();
    let serial = header.map(|header| header.serial).filter(|serial| is_serial(serial.as_bytes()));
    let serial = serial.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy { Err(busy()) } else { Ok((connection, serial)) }
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

fn explain(reason: rusqlite::Error) -> Error {
    match reason.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let what = "another process has the token open: end the programs that use it, and try again";
            Error::new(ErrorKind::ResourceBusy, what)
        }
        _ => Error::other(reason),
    }
}

/// Makes the token's own directory. Those who may use the token may use the directory, too.
fn make_directory(path: &Path, tokens: &Path, own: &Path) -> Result<()> {
    let (token, directory) = (path.symlink_metadata()?, tokens.metadata()?);
    let is_shared = permissions::is_shared(directory.mode());
    if token.mode() & GROUP != 0 && !is_shared {
        let what = format!(
            "a group may use this file, but could not use its directory: chmod g-rwx {}, or chmod g+ws {}",
            path.display(),
            tokens.display()
        );
        return Err(Error::other(what));
    }
    layout::make_directories(own)?;
    // The directory of a token that root moves belongs to the owner of the token.
    let made = layout::own_directory(own).unwrap_or(tokens);
    let id = |data: &Metadata| (data.uid(), data.gid());
    let owner = (token.uid(), if is_shared { directory.gid() } else { token.gid() });
    if rustix::process::geteuid().is_root() && id(&made.symlink_metadata()?) != owner {
        chown(made, Some(owner.0), Some(owner.1))?;
    }
    Ok(())
}

/// The rights of a group.
const GROUP: u32 = 0o070;

/// Renames a file, unless a file has the new name.
fn rename(from: &Path, to: &Path) -> Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag.
        Err(Errno::INVAL) if to.symlink_metadata().is_err() => std::fs::rename(from, to),
        Err(Errno::EXIST) => Err(Error::other(format!("{} exists, too", to.display()))),
        renamed => Ok(renamed?),
    }
}
