//! Output files. Only their owner may read them, except those with public results. They replace an
//! existing file only with `--force`.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::NamedTempFile;

use crate::{Cause, Error, token_file};

/// The start of the name that a new file has in the moment before it replaces another one.
const NEW: &str = ".jeton-new-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    /// The new file replaces it. A symbolic link is replaced, not followed.
    Replace,
}

/// Writes a new file that only its owner may read, or into a device or a FIFO.
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), Error> {
    let new = NewFile::create(path, existing)?;
    new.write(bytes)?;
    new.publish()
}

/// A new file that gets its name when it is complete. Until then it has no name, so a process that
/// is killed leaves no file. If the file system does not support this, the file has a temporary
/// name. Only its owner may read the file.
pub struct NewFile {
    path: PathBuf,
    folder: PathBuf,
    existing: Existing,
    file: Unnamed,
}

enum Unnamed {
    /// The file system supports `O_TMPFILE`.
    Nameless(File),
    /// The file system does not support `O_TMPFILE`, so the file has a temporary name.
    Temporary(NamedTempFile),
    /// A device or a FIFO. It is written to, and never replaced.
    Stream(File),
}

impl NewFile {
    /// Creates the file, or opens the device or the FIFO. Fails if something exists that must be
    /// kept, or that is no file.
    pub fn create(path: &Path, existing: Existing) -> Result<Self, Error> {
        Self::with_mode(path, existing, 0o600)
    }

    /// Like [`create`](Self::create), for a file with this mode, from which the umask takes bits.
    pub fn with_mode(path: &Path, existing: Existing, mode: u32) -> Result<Self, Error> {
        let folder = folder_of(path);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = if is_stream(path) {
            Unnamed::Stream(open_stream(path).map_err(Error::io(path))?)
        } else {
            if let Some(list) = list_of(path) {
                let text = format!("{} would be a part of {}", path.display(), list.display());
                return Err(Error::Caused(Cause::Refused, text));
            }
            match path.symlink_metadata() {
                Ok(_) if existing == Existing::Keep => return Err(exists(path)),
                Ok(data) if data.is_file() && is_list(path) => {
                    let text = format!("{} is a list, which no output replaces", path.display());
                    return Err(Error::Caused(Cause::Refused, text));
                }
                Ok(data) if !data.is_file() && !data.is_symlink() => {
                    return Err(Error::io(path)(ErrorKind::AlreadyExists.into()));
                }
                _ => {}
            }
            match rustix::fs::open(folder, flags, Mode::from(mode)) {
                Ok(file) => Unnamed::Nameless(file.into()),
                Err(_) => {
                    let mode = Permissions::from_mode(mode);
                    let file = tempfile::Builder::new().prefix(NEW).permissions(mode).tempfile_in(folder);
                    let file = file.map_err(Error::io(folder))?;
                    // Some file systems have no locks.
                    let _ = file.as_file().try_lock();
                    Unnamed::Temporary(file)
                }
            }
        };
        Ok(Self { path: path.to_owned(), folder: folder.to_owned(), existing, file })
    }

    pub fn file(&self) -> &File {
        match &self.file {
            Unnamed::Nameless(file) | Unnamed::Stream(file) => file,
            Unnamed::Temporary(file) => file.as_file(),
        }
    }

    /// Returns whether the bytes arrive at a reader as soon as they are written.
    pub fn is_stream(&self) -> bool {
        matches!(self.file, Unnamed::Stream(_))
    }

    /// Writes bytes, which are on the disk at the end.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.file().write_all(bytes).and_then(|()| self.sync()).map_err(Error::io(&self.path))
    }

    fn sync(&self) -> std::io::Result<()> {
        if self.is_stream() { Ok(()) } else { self.file().sync_all() }
    }

    pub fn publish(self) -> Result<(), Error> {
        self.sync().map_err(Error::io(&self.path))?;
        let path = self.path;
        let named = match (self.file, self.existing) {
            (Unnamed::Stream(_), _) => return Ok(()),
            (Unnamed::Temporary(file), Existing::Keep) => {
                file.persist_noclobber(&path).map(drop).map_err(|error| error.error)
            }
            (Unnamed::Temporary(file), Existing::Replace) => {
                file.persist(&path).map(drop).map_err(|error| error.error)
            }
            (Unnamed::Nameless(file), Existing::Keep) => link(&file, &path),
            // A link cannot replace a file. So the file first gets a temporary name, and a rename
            // replaces the old file.
            (Unnamed::Nameless(file), Existing::Replace) => {
                let _ = file.try_lock();
                let name =
                    tempfile::Builder::new().prefix(NEW).make_in(&self.folder, |name| link(&file, name));
                name.and_then(|name| name.persist(&path).map_err(|error| error.error)).map(drop)
            }
        };
        remove_left(&self.folder);
        named.map_err(|reason| match reason.kind() {
            ErrorKind::AlreadyExists => exists(&path),
            _ => Error::io(&path)(reason),
        })?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(Error::io(&self.folder))
    }
}

/// Returns whether the file is a database of SQLite, as a list is.
fn is_list(path: &Path) -> bool {
    let mut start = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"SQLite format 3\0"
}

/// Returns the database whose journal, log, index or lock would have this name. SQLite and the
/// token use what such a file has.
fn list_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let ends = ["-journal", "-wal", "-shm", "-lock"];
    let base = ends.iter().find_map(|end| name.strip_suffix(end))?;
    Some(path.with_file_name(base)).filter(|base| is_list(base))
}

/// Removes what commands left that were killed while they replaced a file. A command that still
/// runs has locked its file.
fn remove_left(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(NEW.as_bytes())) {
        let file = token_file::open_file(&entry.path(), OFlags::RDONLY | OFlags::CLOEXEC, 0);
        if file.is_ok_and(|file| file.try_lock().is_ok()) {
            // Another user's file in a shared directory stays.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Gives an open file a name. `open(2)`, `O_TMPFILE`.
fn link(file: &File, name: &Path) -> std::io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns whether this is a device, a FIFO or a link of the system, such as `/dev/stdout`.
pub fn is_stream(path: &Path) -> bool {
    let Ok(kind) = path.symlink_metadata().map(|data| data.file_type()) else { return false };
    let is_of_system = || {
        let folder = folder_of(path).canonicalize().unwrap_or_default();
        ["/dev", "/proc"].iter().any(|system| folder.starts_with(system))
    };
    kind.is_char_device() || kind.is_fifo() || kind.is_symlink() && is_of_system()
}

/// Opens a device, a FIFO that has a reader, or what a link of the system leads to.
fn open_stream(path: &Path) -> std::io::Result<File> {
    let is_link = path.is_symlink();
    let follow = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    // A FIFO without a reader fails at once with this flag.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | follow).bits() as i32;
    let file = OpenOptions::new().append(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_char_device() || kind.is_fifo() || kind.is_file() && is_link {
        rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
        return Ok(file);
    }
    Err(ErrorKind::InvalidInput.into())
}

fn exists(path: &Path) -> Error {
    Cause::Exists
        .error(format!("{} exists; give another name, or --force if the command has it", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_kept_and_a_link_is_never_followed() {
        let folder = tempfile::tempdir().expect("the system has a temporary directory");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, b"1", Existing::Keep).expect("the file is new");
        assert_eq!(fs::metadata(&file).expect("the file").mode() & 0o777, 0o600);
        assert!(write(&file, b"2", Existing::Keep).is_err());
        symlink(&file, &link).expect("a link");
        assert!(write(&link, b"2", Existing::Keep).is_err());
        write(&link, b"2", Existing::Replace).expect("it replaces the link");
        assert_eq!(fs::read(&file).expect("the file"), b"1");
        assert_eq!(fs::read(&link).expect("the file"), b"2");
        assert_eq!(fs::metadata(&link).expect("the file").mode() & 0o777, 0o600);
    }

    #[test]
    fn what_a_killed_command_left_is_removed_and_what_a_running_one_has_is_not() {
        let folder = tempfile::tempdir().expect("the system has a temporary directory");
        let [left, running, other] =
            [".jeton-new-left", ".jeton-new-running", ".jeton-other"].map(|name| folder.path().join(name));
        for path in [&left, &running, &other] {
            fs::write(path, b"1").expect("the directory is writable");
        }
        let locked = File::open(&running).expect("the file");
        locked.lock().expect("a lock");
        let path = folder.path().join("file");
        for (existing, text) in [(Existing::Keep, b"1"), (Existing::Replace, b"2")] {
            write(&path, text, existing).expect("the directory is writable");
            assert_eq!([&left, &running, &other].map(|path| path.exists()), [false, true, true]);
        }
        assert_eq!(fs::read(&path).expect("the file"), b"2");
        drop(locked);
        write(&path, b"3", Existing::Replace).expect("it is replaced");
        let names = fs::read_dir(folder.path()).expect("the directory").count();
        assert_eq!((running.exists(), names), (false, 2));
    }

    #[test]
    fn no_output_becomes_a_part_of_a_list() {
        let folder = tempfile::tempdir().expect("the system has a temporary directory");
        let list = folder.path().join("issued.sqlite");
        fs::write(&list, b"SQLite format 3\0").expect("the directory is writable");
        for end in ["", "-journal", "-wal", "-shm", "-lock"] {
            let part = folder.path().join(format!("issued.sqlite{end}"));
            for existing in [Existing::Keep, Existing::Replace] {
                assert!(write(&part, b"1", existing).is_err(), "{end}");
            }
            assert_eq!(part.exists(), end.is_empty());
        }
        write(&folder.path().join("other-journal"), b"1", Existing::Keep).expect("no list has this journal");
    }

    #[test]
    fn a_directory_and_a_fifo_are_never_replaced() {
        let folder = tempfile::tempdir().expect("the system has a temporary directory");
        let (fifo, below) = (folder.path().join("fifo"), folder.path().join("folder"));
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a FIFO");
        fs::create_dir(&below).expect("a directory");
        let before = |path| fs::symlink_metadata(path).expect("it stays").ino();
        for path in [&fifo, &below] {
            let number = before(path);
            // No process reads the FIFO.
            assert!(write(path, b"1", Existing::Replace).is_err());
            assert_eq!(before(path), number);
        }
        // A link to it is replaced, and the FIFO stays.
        let link = folder.path().join("link");
        symlink(&fifo, &link).expect("a link");
        write(&link, b"1", Existing::Replace).expect("it replaces the link");
        assert_eq!(fs::read(&link).expect("a file"), b"1");
        let reader =
            rustix::fs::open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("a reader");
        write(&fifo, b"1", Existing::Keep).expect("it has a reader");
        let mut byte = [0];
        File::from(reader).read_exact(&mut byte).expect("a byte");
        assert_eq!(&byte, b"1");
    }
}
