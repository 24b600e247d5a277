//! The permissions of token files, of the files beside them and of their directory.

use std::fs::{File, Metadata, Permissions};
use std::io::{Error, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::file;

/// Fails if a token file is not a regular file, or if every user may write to it.
pub(super) fn check_file(data: &Metadata) -> Result<()> {
    if !data.is_file() {
        return Err(Error::other("this is not a regular file"));
    }
    if data.mode() & EVERYBODY_WRITES != 0 {
        return Err(Error::other("every user may write to this file: chmod o-w"));
    }
    Ok(())
}

/// A problem with the permissions of a token directory.
pub(super) enum Exposure {
    /// Every user may add files. With the sticky bit too, anyone could make a file beside a token
    /// that prevents every login.
    Everybody,
    /// A group may replace or truncate files, or another user owns the directory.
    Some(&'static str),
}

/// Returns the mode of new files in a directory. Only their owner may read and write them, except
/// in a shared directory, where the directory's group may too. Fails if every user may write to the
/// directory.
pub(crate) fn mode_in(dir: &Path) -> Result<u32> {
    let mode = std::fs::metadata(dir)?.mode();
    if mode & EVERYBODY_WRITES != 0 {
        return Err(Error::other("every user may write to this directory: chmod o-w"));
    }
    Ok(if is_shared(mode) { OWNER | GROUP } else { OWNER })
}

/// Returns the mode of a new file beside a token file: the token file's own, without rights for
/// users outside its group.
pub(crate) fn mode_beside(token: &Path) -> u32 {
    std::fs::metadata(token).map_or(OWNER, |data| data.mode() & (OWNER | GROUP))
}

/// Opens a file as [`file::open`] does, or creates it. A new file gets exactly this mode, also
/// where the process's umask takes rights away from groups.
pub(super) fn open_or_create(path: &Path, flags: OFlags, mode: u32) -> Result<File> {
    let file = file::open(path, flags | OFlags::CREATE, mode)?;
    if mode & GROUP != 0 {
        let data = file.metadata()?;
        let own = data.uid() == rustix::process::geteuid().as_raw();
        if own && data.len() == 0 && data.mode() & (OWNER | GROUP) != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
    }
    Ok(file)
}

/// Returns whether the administrator shares a directory with a group: its group may write, and new
/// files belong to this group (setgid).
fn is_shared(mode: u32) -> bool {
    mode & GROUP_WRITES != 0 && mode & SETGID != 0
}

/// Checks the permissions of a token directory, as ssh checks its own. Some installations let a
/// group write to a directory or use a directory of another user, so the caller only warns about
/// these.
pub(super) fn exposure(data: &Metadata) -> Option<Exposure> {
    let mode = data.mode();
    if mode & EVERYBODY_WRITES != 0 {
        return Some(Exposure::Everybody);
    }
    if mode & GROUP_WRITES != 0 && !is_shared(mode) {
        return Some(Exposure::Some("a group may write to this directory, which is not setgid"));
    }
    let owner = data.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != 0 && owner != own {
        return Some(Exposure::Some("this directory belongs to another user"));
    }
    // SQLite maps the `-shm` file. A truncated one is a `SIGBUS`, and the host owns its handler.
    let shared = "a member of its group can end each process that has a token open, by a truncated file";
    is_shared(mode).then_some(Exposure::Some(shared))
}

const OWNER: u32 = 0o600;
const GROUP: u32 = 0o060;
const EVERYBODY_WRITES: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const SETGID: u32 = 0o2000;
