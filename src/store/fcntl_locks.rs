//! Turns the locks that SQLite takes on its files into locks of an open file description.
//!
//! SQLite locks with fcntl(2), and those locks belong to the process ("How To Corrupt An SQLite
//! Database File", 2.2). If any code in the process closes a descriptor of the file, the kernel
//! drops all of them. A backup inside the process does this, for example. And two copies of SQLite
//! in one process never conflict: each believes that no other process uses the file.
//!
//! Here each file that SQLite locks gets one more descriptor, which is used only for locking:
//! its *lock*. All connections of this copy lock through it with `F_OFD_SETLK`. To SQLite such a
//! lock looks like a lock of the process, because its connections share it. To other processes, and
//! to other copies of SQLite, it is the lock of another process.
//!
//! - A connection cannot lock through its own descriptor. SQLite counts the readers of a file: the
//!   first one takes the lock, and the last one releases it, through another descriptor.
//! - The descriptor that maps `-shm` cannot be the lock. A forked child inherits the mapping, which
//!   keeps the description open, and with it the locks of a parent that was killed. A lock is not
//!   mapped, so a child can close it.
//! - SQLite drops one lock by closing the file: the lock on `-shm` that shows that the file is in
//!   use. So this module closes the *lock* when SQLite closes its last descriptor of the file.
//!
//! SQLite's files are also opened here, as all files of a token directory are (`src/file.rs`).
//!
//! In the kernel, both kinds of locks conflict with each other. So `sqlite3` and older versions of
//! this module wait for this version, and this version waits for them.

#![allow(unsafe_code, reason = "SQLite's system calls and its mutex are C functions")]

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use once_cell::race::OnceBool;
use rusqlite::ffi;
use rustix::fs::OFlags;
use tracing::error;

use super::descriptors;
use crate::file;

/// The mutex of the [`Table`], which SQLite reserves for applications.
pub(super) const MUTEX: c_int = ffi::SQLITE_MUTEX_STATIC_APP1;
/// The number of attempts to open a file that is replaced during the attempt.
const TRIES: usize = 8;

/// The identity of a file: its device and inode.
type Id = (libc::dev_t, libc::ino_t);

/// The files that SQLite has open, and their locks.
#[derive(Default)]
struct Table {
    /// The file of each descriptor of SQLite.
    files: HashMap<c_int, Id>,
    locks: HashMap<Id, Lock>,
}

#[derive(Clone, Copy)]
struct Lock {
    descriptor: c_int,
    /// The number of descriptors that SQLite has open for this file.
    users: usize,
}

struct Guarded(UnsafeCell<Option<Table>>);

// SAFETY: outside a fork only `with_table` reaches the contents, and it holds the mutex [`MUTEX`]
// meanwhile.
unsafe impl Sync for Guarded {}

static TABLE: Guarded = Guarded(UnsafeCell::new(None));

fn with_table<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    // SAFETY: a static mutex lives as long as the process.
    let mutex = unsafe { ffi::sqlite3_mutex_alloc(MUTEX) };
    // SAFETY: as above. This thread does not hold it, because `work` calls the operating system but
    // not SQLite.
    unsafe { ffi::sqlite3_mutex_enter(mutex) };
    // SAFETY: the mutex is held, so this is the only reference.
    let outcome = work(unsafe { (*TABLE.0.get()).get_or_insert_default() });
    // SAFETY: taken above by this thread.
    unsafe { ffi::sqlite3_mutex_leave(mutex) };
    outcome
}

/// Closes the inherited descriptors of the parent's locks in the child of a fork. The parent held
/// the mutex during the fork, and keeps its locks. Async-signal-safe: closes descriptors and frees
/// no memory.
pub(super) fn forget_parent() {
    // SAFETY: the thread that forked holds the mutex, and is the only thread in the child.
    let Some(table) = (unsafe { (*TABLE.0.get()).as_mut() }) else { return };
    for lock in table.locks.values() {
        // SAFETY: `adopt` opened the descriptor, and no other code knows it.
        unsafe { libc::close(lock.descriptor) };
    }
    table.locks.clear();
    table.files.clear();
}

/// Opens a file for SQLite, which always passes the mode. Also opens the lock of the file.
pub(super) unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SQLite opens a directory to sync it, and `/dev/null` if the host closed a standard stream. It
    // opens all files with this flag.
    if flags & libc::O_NOFOLLOW == 0 {
        // SAFETY: SQLite's own arguments, unchanged.
        let opened = unsafe { libc::open(path, flags, mode) };
        if opened < 0 {
            descriptors::note(&Error::last_os_error());
        }
        return opened;
    }
    // SAFETY: SQLite passes a path that ends with NUL.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let reason = match open_file(path, flags, mode) {
        Ok(file) => return file,
        Err(reason) => reason,
    };
    descriptors::note(&reason);
    if file::is_refusal(&reason) {
        // SQLite's error does not say why.
        error!(file = %path.display(), "store: {reason}");
    }
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = reason.raw_os_error().unwrap_or(libc::EIO) };
    -1
}

fn open_file(path: &Path, flags: c_int, mode: c_int) -> std::io::Result<c_int> {
    for _ in 0..TRIES {
        let file = file::open(path, OFlags::from_bits_retain(flags as _), mode as u32)?.into_raw_fd();
        match adopt(path, flags, file) {
            Ok(()) => return Ok(file),
            Err(reason) => {
                // SAFETY: opened above, and SQLite does not have it.
                unsafe { libc::close(file) };
                // If another file has this name now, it is opened.
                if reason.kind() != ErrorKind::ResourceBusy {
                    return Err(reason);
                }
            }
        }
    }
    Err(Error::from_raw_os_error(libc::EBUSY))
}

/// Calls lstat(2) for SQLite, which resolves the links of a path before it opens a file. Shows
/// links as regular files: so the kernel resolves those of the directories, and [`open`] refuses a
/// link to the file.
pub(super) unsafe extern "C" fn lstat(path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: SQLite's own arguments, unchanged.
    let outcome = unsafe { libc::lstat(path, to) };
    // SAFETY: SQLite provides the memory for the result, which lstat(2) has filled.
    if outcome == 0 && unsafe { (*to).st_mode } & libc::S_IFMT == libc::S_IFLNK {
        // SAFETY: as above.
        unsafe { (*to).st_mode = (*to).st_mode & !libc::S_IFMT | libc::S_IFREG };
    }
    outcome
}

/// Calls mmap(2) for SQLite, which maps only `-shm`. First gives the mapped part of the file its
/// blocks. SQLite writes one byte to each page of 4 KiB, so a file system with smaller blocks
/// leaves holes. A write to a hole on a full disk would end the process by SIGBUS.
pub(super) unsafe extern "C" fn mmap(
    place: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let is_written = protection & libc::PROT_WRITE != 0;
    // fallocate(2) changes no byte, because SQLite has made the file long enough. The emulation of
    // posix_fallocate(3) would write to a file that other processes use. A file system without
    // fallocate(2) stays as it is.
    // SAFETY: no pointers.
    if is_written && unsafe { libc::fallocate(file, 0, offset, len as libc::off_t) } != 0 {
        let reason = Error::last_os_error();
        if matches!(reason.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return libc::MAP_FAILED;
        }
    }
    // SAFETY: SQLite's own arguments, unchanged.
    unsafe { libc::mmap(place, len, protection, flags, file, offset) }
}

/// Calls close(2) for SQLite. Also closes the lock if this is the last descriptor of the file.
pub(super) unsafe extern "C" fn close(file: c_int) -> c_int {
    // Do this before the descriptor is free, because another thread may get its number at once.
    with_table(|table| table.remove(file));
    // SAFETY: SQLite's own argument, unchanged.
    unsafe { libc::close(file) }
}

/// Calls fcntl(2) for SQLite. The argument is a number or the address of a `flock`. Both are passed
/// in a register.
pub(super) unsafe extern "C" fn fcntl(file: c_int, operation: c_int, argument: *mut c_void) -> c_int {
    let own = match operation {
        libc::F_SETLK => libc::F_OFD_SETLK,
        libc::F_SETLKW => libc::F_OFD_SETLKW,
        libc::F_GETLK => libc::F_OFD_GETLK,
        // SAFETY: SQLite's own arguments, unchanged.
        _ => return unsafe { libc::fcntl(file, operation, argument) },
    };
    let lock = with_table(|table| table.locks.get(table.files.get(&file)?).map(|lock| lock.descriptor));
    let Some(lock) = lock else {
        // SAFETY: SQLite's own arguments, unchanged.
        return unsafe { libc::fcntl(file, operation, argument) };
    };
    // SAFETY: for these operations SQLite passes a `flock`. SQLite does not close a file while it
    // locks it, so the lock stays open. fcntl(2), "Open file description locks": l_pid must be 0.
    unsafe {
        (*argument.cast::<libc::flock>()).l_pid = 0;
        libc::fcntl(lock, own, argument)
    }
}

/// Finds or opens the lock of a file that SQLite has opened. Fails with `ResourceBusy` if another
/// file has this path now.
fn adopt(path: &Path, flags: c_int, file: c_int) -> std::io::Result<()> {
    // SQLite does not lock these files.
    let name = path.as_os_str().as_bytes();
    if name.ends_with(b"-wal") || name.ends_with(b"-journal") {
        return Ok(());
    }
    let Some(id) = regular(file)? else { return Ok(()) };
    with_table(|table| {
        if let Some(lock) = table.locks.get_mut(&id) {
            lock.users += 1;
        } else {
            let descriptor = open_lock(path, flags)?;
            if regular(descriptor)? != Some(id) {
                // SAFETY: opened above.
                unsafe { libc::close(descriptor) };
                return Err(ErrorKind::ResourceBusy.into());
            }
            if !supported(descriptor) {
                tracing::warn!("the system has no open file description locks: use one copy of the module");
                // SAFETY: opened above.
                unsafe { libc::close(descriptor) };
                return Ok(());
            }
            table.locks.insert(id, Lock { descriptor, users: 1 });
        }
        table.files.insert(file, id);
        Ok(())
    })
}

impl Table {
    /// Forgets a descriptor that SQLite closes. Closes the lock if this is the last descriptor of
    /// its file.
    fn remove(&mut self, file: c_int) {
        let Some(id) = self.files.remove(&file) else { return };
        let Some(lock) = self.locks.get_mut(&id) else { return };
        lock.users -= 1;
        if lock.users > 0 {
            return;
        }
        let mut all = full_range(libc::F_UNLCK);
        // A child process that was created without the fork handlers (clone(2)) may share the
        // description. Then closing alone would not release the lock.
        // SAFETY: `all` is live. `adopt` opened the descriptor, and no other code uses it any more.
        unsafe {
            libc::fcntl(lock.descriptor, libc::F_OFD_SETLK, &raw mut all);
            libc::close(lock.descriptor);
        }
        self.locks.remove(&id);
    }
}

/// Returns the device and inode of a regular file, or `None` for a directory or another type.
fn regular(file: c_int) -> std::io::Result<Option<Id>> {
    // SAFETY: all zeros is a valid `stat`.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` receives the result.
    if unsafe { libc::fstat(file, &raw mut found) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok((found.st_mode & libc::S_IFMT == libc::S_IFREG).then_some((found.st_dev, found.st_ino)))
}

/// Opens a file for locking, with the same access mode as SQLite.
fn open_lock(path: &Path, flags: c_int) -> std::io::Result<c_int> {
    let flags = OFlags::from_bits_retain((flags & libc::O_ACCMODE) as _);
    let opened = file::open(path, flags, 0)?.into_raw_fd();
    // If the host closed a standard stream, the lock must not get its number. Otherwise the output
    // of the host would go to the token.
    let lock = match opened {
        // SAFETY: no pointers. A duplicate has the same description.
        0..=2 => unsafe {
            let moved = libc::fcntl(opened, libc::F_DUPFD_CLOEXEC, 3);
            libc::close(opened);
            moved
        },
        _ => opened,
    };
    if lock < 0 { Err(Error::last_os_error()) } else { Ok(lock) }
}

/// Returns whether the locks belong to open file descriptions, so that closing another descriptor
/// of a file keeps them. Otherwise they belong to the process.
pub(super) fn belong_to_descriptions() -> bool {
    static KNOWN: OnceBool = OnceBool::new();
    // If no descriptors are left, the next call tries again.
    let ask = || File::open("/dev/null").map(|file| supported(file.as_raw_fd()));
    KNOWN.get_or_try_init(ask).unwrap_or(false)
}

/// Returns whether the system has locks of an open file description. Linux 3.15 and later do. Some
/// systems that imitate Linux do not.
fn supported(lock: c_int) -> bool {
    let mut all = full_range(libc::F_RDLCK);
    // SAFETY: `all` is live.
    unsafe { libc::fcntl(lock, libc::F_OFD_GETLK, &raw mut all) == 0 }
}

/// Returns a `flock` of this type for every byte of a file.
fn full_range(kind: c_int) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}
