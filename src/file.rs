//! Opens files in the directories of tokens, counters and logs.
//!
//! Other users may be allowed to write to such a directory. They can put anything under a name that
//! this process opens: a symbolic link, a second name of another user's file, a FIFO that blocks
//! the process. So [`open`] accepts only a regular file with one name, and never waits. After that,
//! the caller uses the descriptor and not the name. `tests/opens.rs` lists all other places that
//! open files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The flags of every open: follow no symbolic link to the file, do not wait for the other end of a
/// FIFO, and pass the descriptor to no other program.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// The number of attempts to open a file that another process removes or replaces meanwhile.
const TRIES: usize = 8;
/// The limit of Linux (`man 7 path_resolution`).
pub(crate) const MAX_LINKS: usize = 40;
/// The mode of a new log.
const OWNER: u32 = 0o600;
const EVERYBODY_WRITES: u32 = 0o002;
const OTHERS_WRITE: u32 = 0o022;

/// The files that a caller accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepted {
    Regular,
    /// Also a device such as `/dev/null`.
    RegularOrDevice,
}

/// Opens a file of a token or a counter. Fails if the name leads to anything but a regular file
/// with one name. In a directory to which every user may write, the file must belong to root, to
/// this user or to the owner of the directory.
///
/// `flags` must not contain `TRUNC`: the file would be emptied before it is checked.
pub fn open(path: &Path, flags: OFlags, mode: u32) -> Result<File> {
    open_accepted(path, flags, mode, Accepted::Regular)
}

/// Opens a log for appending, or creates it. The administrator chose its path, so it may also be a
/// device, and a symbolic link in a directory to which only root or this user may write. The link
/// `/dev/stderr` leads to a descriptor of this process.
pub(crate) fn open_log(path: &Path, flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::APPEND | OFlags::CREATE;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&path) else { break };
        let directory = directory_of(&path);
        // `open_accepted` refuses the link.
        if !is_private(directory)? {
            break;
        }
        if [Path::new("/proc/self/fd"), Path::new("/dev/fd")].contains(&directory) {
            return open_descriptor(&path, flags);
        }
        path = directory.join(target);
    }
    open_accepted(&path, flags, OWNER, Accepted::RegularOrDevice)
}

/// Opens a file to read it, whose path the administrator or the user chose. It may be a device such
/// as `/dev/null`, and any links may lead to it. A FIFO is refused: the process would wait for a
/// writer.
pub(crate) fn open_chosen(path: &Path) -> Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_char_device() {
        Ok(file)
    } else {
        Err(refusal("this is not a regular file"))
    }
}

pub(crate) fn open_directory(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Like [`open_directory`]. Fails if the name is that of a symbolic link.
pub(crate) fn open_directory_itself(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Fails with `EFBIG` if a file of this length is longer than the limit of the process
/// (`RLIMIT_FSIZE`). Callers ask before they write or lengthen a file: the kernel ends a process by
/// SIGXFSZ that exceeds the limit, and a library must not change how its host handles a signal.
pub(crate) fn expect_allowed(len: u64) -> Result<()> {
    let longest = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    if len > longest { Err(Errno::FBIG.into()) } else { Ok(()) }
}

/// Fails as [`expect_allowed`] does if this number of bytes more makes a file too long. A device
/// and a pipe have no limit.
pub(crate) fn expect_appendable(file: impl AsFd, len: usize) -> Result<()> {
    let data = fstat(file)?;
    if FileType::from_raw_mode(data.st_mode).is_file() {
        expect_allowed(data.st_size.cast_unsigned() + len as u64)?;
    }
    Ok(())
}

/// Syncs the directory of a file, so that a new name of the file survives a crash.
pub(crate) fn sync_directory_of(path: &Path) -> Result<()> {
    open_directory(directory_of(path))?.sync_all()
}

/// Returns the name of a file followed by a suffix, as the files beside a database have it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes the files beside this one that have these suffixes, if they exist.
pub(crate) fn remove_beside(path: &Path, suffixes: &[&str]) {
    for suffix in suffixes {
        let _ = std::fs::remove_file(beside(path, suffix));
    }
}

/// Returns whether this error of [`open`] is about what the name leads to.
pub(crate) fn is_refusal(reason: &Error) -> bool {
    reason.get_ref().is_some_and(|inner| inner.is::<Refusal>())
}

fn open_accepted(path: &Path, flags: OFlags, mode: u32, accepted: Accepted) -> Result<File> {
    debug_assert!(!flags.contains(OFlags::TRUNC), "the file would be emptied before it is checked");
    for _ in 0..TRIES {
        let opened = rustix::io::retry_on_intr(|| {
            rustix::fs::open(path, flags | SAFE, Mode::from_raw_mode(mode as rustix::fs::RawMode))
        });
        let file = File::from(opened.map_err(|reason| match reason {
            Errno::LOOP => refusal("this is a symbolic link"),
            // A FIFO without a reader, or a socket.
            Errno::NXIO => refusal("this is not a regular file"),
            reason => reason.into(),
        })?);
        let data = file.metadata()?;
        if accepted == Accepted::RegularOrDevice && data.file_type().is_char_device() {
            return Ok(file);
        }
        if !data.is_file() {
            return Err(refusal("this is not a regular file"));
        }
        match data.nlink() {
            // The file was removed or replaced after it was opened.
            0 => {}
            1 => return check_owner(path, &data).map(|()| file),
            _ => return Err(refusal("this file has a second name (hard link)")),
        }
    }
    Err(Error::new(ErrorKind::ResourceBusy, "other processes replace this file"))
}

/// Fails if a stranger may have made this file: in a directory to which every user may write, its
/// owner must be root, this user or the owner of the directory.
fn check_owner(path: &Path, data: &Metadata) -> Result<()> {
    if is_trusted(data.uid()) {
        return Ok(());
    }
    let directory = std::fs::metadata(directory_of(path))?;
    if directory.mode() & EVERYBODY_WRITES != 0 && data.uid() != directory.uid() {
        return Err(refusal("this file belongs to another user, in a directory of every user"));
    }
    Ok(())
}

/// Opens a descriptor of this process again, by its link below `/proc`. The kernel follows this
/// link to the open file, which may have no name.
fn open_descriptor(path: &Path, flags: OFlags) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).read(flags.contains(OFlags::RDWR));
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    let file = options.open(path)?;
    // The open must not wait, but a write waits as one to standard error does.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Returns whether only root or this user may write to a directory.
fn is_private(directory: &Path) -> Result<bool> {
    let data = std::fs::metadata(directory)?;
    Ok(is_trusted(data.uid()) && data.mode() & OTHERS_WRITE == 0)
}

/// Returns whether this is root or the user of this process.
pub(crate) fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The reason why [`open`] refuses a file.
#[derive(Debug)]
struct Refusal(&'static str);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Refusal {}

fn refusal(what: &'static str) -> Error {
    Error::other(Refusal(what))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, FileType, mknodat};
    use tempfile::TempDir;

    use super::*;

    fn directory() -> TempDir {
        tempfile::tempdir().expect("a new directory")
    }

    fn write(directory: &TempDir, name: &str) -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, name).expect("a file");
        path
    }

    fn set_mode(directory: &TempDir, mode: u32) {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).expect("its owner");
    }

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    }

    #[test]
    fn only_a_regular_file_with_one_name_is_opened_and_nothing_blocks() {
        let directory = directory();
        let path = |name: &str| directory.path().join(name);
        let file = write(&directory, "file");
        symlink(&file, path("link")).expect("a link");
        symlink(path("missing"), path("to nothing")).expect("a link");
        std::fs::hard_link(write(&directory, "two"), path("second")).expect("a link");
        fifo(&path("fifo"));
        std::fs::create_dir(path("directory")).expect("a directory");
        for access in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
            for flags in [access, access | OFlags::CREATE] {
                for name in ["link", "to nothing", "two", "second", "fifo"] {
                    let reason = open(&path(name), flags, 0o600).expect_err(name);
                    assert!(is_refusal(&reason), "{name}: {reason}");
                }
                assert!(open(&path("directory"), flags, 0o600).is_err());
                assert!(open(Path::new("/dev/null"), flags, 0o600).is_err());
                open(&file, flags, 0o600).expect("a regular file");
            }
        }
        assert!(!path("missing").exists());
        let new = open(&path("new"), OFlags::RDWR | OFlags::CREATE, 0o600).expect("a new file");
        assert_eq!(new.metadata().expect("a file").mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_another_user_is_refused_in_a_directory_of_every_user() {
        const MALLORY: u32 = 60_410;
        let directory = directory();
        let file = write(&directory, "file");
        if chown(&file, Some(MALLORY), None).is_err() {
            return jeton_programs::skip("only root can give files away");
        }
        for (mode, refused) in [(0o700, false), (0o2770, false), (0o1777, true)] {
            set_mode(&directory, mode);
            assert_eq!(open(&file, OFlags::RDONLY, 0).is_err(), refused, "{mode:o}");
        }
        chown(&directory, Some(MALLORY), None).expect("root");
        open(&file, OFlags::RDONLY, 0).expect("the file of the directory's owner");
    }

    #[test]
    fn a_log_may_be_a_device_and_a_link_in_a_private_directory() {
        let directory = directory();
        let path = |name: &str| directory.path().join(name);
        symlink("file", path("link")).expect("a link");
        symlink("link", path("two links")).expect("a link");
        symlink("/dev/null", path("null")).expect("a link");
        fifo(&path("fifo"));
        symlink("fifo", path("to a fifo")).expect("a link");
        // Links such as /dev/stderr. Standard error itself may belong to another user, who ran su.
        let open = File::open("/dev/null").expect("a device");
        let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
        symlink(&descriptor, path("to a descriptor")).expect("a link");
        let log = |name: &str| open_log(&path(name), OFlags::WRONLY);
        for name in ["link", "two links", "null", "/dev/null", "to a descriptor", &descriptor] {
            log(name).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        }
        assert!(path("file").exists());
        for name in ["fifo", "to a fifo", "."] {
            assert!(log(name).is_err(), "{name}");
        }
        for mode in [0o770, 0o2770, 0o1777] {
            set_mode(&directory, mode);
            for name in ["link", "two links", "null"] {
                assert!(log(name).is_err_and(|reason| is_refusal(&reason)), "{name} with mode {mode:o}");
            }
            log("file").expect("a regular file");
        }
    }
}
