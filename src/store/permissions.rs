//! The permissions of token files, of the files beside them and of their directory.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

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

/// Fails if a token's own directory is not a directory, such as a symbolic link, or if every user
/// may write to it.
pub(super) fn check_own_directory(data: &Metadata) -> Result<()> {
    if !data.is_dir() {
        return Err(Error::other("this is no directory, or a link to one: move the directory itself here"));
    }
    if data.mode() & EVERYBODY_WRITES != 0 {
        return Err(Error::other("every user may write to the token's own directory: chmod o-w"));
    }
    Ok(())
}

/// Makes a directory that only its owner may use, with the directories above it.
pub(super) fn create_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(OWNER_SEARCHES).create(path)
}

/// Makes the own directory of a token, unless it exists. In a shared directory, the group may use
/// it, too.
pub(super) fn create_own_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(OWNER_SEARCHES).create(path) {
        Err(reason) if reason.kind() == ErrorKind::AlreadyExists => {
            return check_own_directory(&std::fs::symlink_metadata(path)?);
        }
        made => made?,
    }
    // The setgid bit and the group come from the directory above.
    let data = std::fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    if is_shared(data.mode()) {
        let mode = Permissions::from_mode(OWNER_SEARCHES | GROUP_SEARCHES | SETGID);
        file::open_directory_itself(path)?.set_permissions(mode)?;
    }
    Ok(())
}

/// Fails if every user may write to a directory, or may put another one at its path. With the
/// sticky bit too, anyone could make a file beside a token that prevents every login.
pub fn check_directory(dir: &Path) -> Result<()> {
    let refuse = |path: &Path, what: &str| {
        let path = path.display();
        Err(Error::other(format!("every user may {what}: chmod o-w {path}")))
    };
    for Step { directory, data, entry } in steps(dir)? {
        if data.mode() & EVERYBODY_WRITES == 0 {
            continue;
        }
        let is_sticky = data.mode() & STICKY != 0;
        if !is_sticky {
            return refuse(&directory, "write to a directory on the way to this one");
        }
        if !file::is_trusted(entry.uid()) && entry.uid() != data.uid() {
            return refuse(&directory, "make the names on the way to this directory, and another user did");
        }
    }
    match std::fs::metadata(dir)?.mode() & EVERYBODY_WRITES {
        0 => Ok(()),
        _ => refuse(dir, "write to this directory"),
    }
}

/// A name on the way to a path.
struct Step {
    /// The directory that has the name.
    directory: PathBuf,
    data: Metadata,
    /// What has the name: a directory or a symbolic link.
    entry: Metadata,
}

/// Returns each name on the way to a path, from the root or from the working directory, as the
/// system looks them up. Who may write to the directory of one of them can lead the path elsewhere,
/// so OpenSSH checks all of them too (`safe_path`).
fn steps(path: &Path) -> Result<Vec<Step>> {
    let mut rest: Vec<PathBuf> = vec![path.to_owned()];
    let (mut at, mut steps, mut links) = (PathBuf::from("."), Vec::new(), 0);
    while let Some(path) = rest.pop() {
        let mut components = path.components();
        let Some(first) = components.next() else { continue };
        rest.push(components.as_path().to_owned());
        let Component::Normal(name) = first else {
            at.push(first);
            continue;
        };
        let next = at.join(name);
        let entry = std::fs::symlink_metadata(&next)?;
        let is_link = entry.is_symlink();
        steps.push(Step { data: std::fs::metadata(&at)?, directory: at.clone(), entry });
        if !is_link {
            at = next;
            continue;
        }
        links += 1;
        if links > file::MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        rest.push(std::fs::read_link(&next)?);
    }
    Ok(steps)
}

/// Returns the mode of new files in a directory. Only their owner may read and write them, except
/// in a shared directory, where the directory's group may too. Fails as [`check_directory`] does.
pub(crate) fn mode_in(dir: &Path) -> Result<u32> {
    check_directory(dir)?;
    let mode = std::fs::metadata(dir)?.mode();
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
pub(super) fn is_shared(mode: u32) -> bool {
    mode & GROUP_WRITES != 0 && mode & SETGID != 0
}

/// Returns what a group or another user may do in a token directory. Some installations let a group
/// write to a directory or use a directory of another user, so the caller only warns about these.
pub(super) fn exposure(data: &Metadata) -> Option<&'static str> {
    let mode = data.mode();
    if mode & GROUP_WRITES != 0 && !is_shared(mode) {
        return Some("a group may write to this directory, which is not setgid");
    }
    if !file::is_trusted(data.uid()) {
        return Some("this directory belongs to another user");
    }
    // SQLite maps the `-shm` file. A truncated one is a `SIGBUS`, and the host owns its handler.
    is_shared(mode)
        .then_some("a member of its group can end each process that has a token open, by a truncated file")
}

const OWNER: u32 = 0o600;
const GROUP: u32 = 0o060;
const EVERYBODY_WRITES: u32 = 0o002;
const OWNER_SEARCHES: u32 = 0o700;
const GROUP_SEARCHES: u32 = 0o070;
const GROUP_WRITES: u32 = 0o020;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, set_permissions};
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).expect("its owner");
    }

    /// Any user could put another directory or link at the name.
    #[test]
    fn a_directory_that_every_user_can_replace_is_refused() {
        let top = tempfile::tempdir().expect("a directory");
        let path = |name: &str| top.path().join(name);
        for name in ["private", "open", "open/tokens", "open/inner", "open/inner/tokens"] {
            create_dir(path(name)).expect("a directory");
        }
        let links = [
            ("private", "open/link"),
            ("open/tokens", "to-open"),
            ("open/link", "to-link"),
            ("../private", "open/inner/link"),
            ("loop", "loop"),
        ];
        for (target, name) in links {
            let target =
                if name == "loop" || target.starts_with("..") { target.into() } else { path(target) };
            symlink(target, path(name)).expect("a link");
        }
        let ways =
            ["open/tokens", "open/inner/tokens", "open/link", "to-open", "to-link", "open/inner/../tokens"];
        // With the sticky bit, only root and the owner of a name replace it. A group is trusted.
        for (mode, is_safe) in [(0o755, true), (0o775, true), (0o777, false), (0o702, false), (0o1777, true)]
        {
            set_mode(&path("open"), mode);
            for way in ways {
                assert_eq!(check_directory(&path(way)).is_ok(), is_safe, "{way} {mode:o}");
            }
            assert!(check_directory(&path("private")).is_ok());
            let shown = check_directory(&path("to-link")).err().map(|reason| reason.to_string());
            let named = format!(": chmod o-w {}", path("open").display());
            assert!(is_safe || shown.is_some_and(|shown| shown.ends_with(&named)));
        }
        assert!(check_directory(&path("loop")).is_err());
    }

    #[test]
    fn a_name_that_another_user_made_in_a_directory_of_every_user_is_refused() {
        const STRANGER: u32 = 64_001;
        let top = tempfile::tempdir().expect("a directory");
        let path = |name: &str| top.path().join(name);
        for name in ["shared", "shared/tokens"] {
            create_dir(path(name)).expect("a directory");
        }
        set_mode(&path("shared"), 0o1777);
        if chown(path("shared/tokens"), Some(STRANGER), None).is_err() {
            // Only root gives files away.
            return;
        }
        assert!(check_directory(&path("shared/tokens")).is_err());
        // The owner of the directory can make any name there.
        chown(path("shared"), Some(STRANGER), None).expect("root");
        assert!(check_directory(&path("shared/tokens")).is_ok());
    }
}
