//! Keeps the files of SQLite intact in a child process after a fork.
//!
//! SQLite keeps a list of the files that the process has open, by device and inode, with the locks
//! that it holds on them. A child inherits the list but not the locks. It would believe that it
//! holds the locks of its parent. It would also write to a log that the parent deletes when it
//! exits ("How To Corrupt An SQLite Database File", 2.6).
//!
//! So each process counts the forks that it descends from, and reports another device to SQLite for
//! the same file. SQLite then does not find the parent's files in its list. So the child opens and
//! locks the files again.
//!
//! During a fork no thread is inside the global state of SQLite or the log, because [`hold`] takes
//! their mutexes.

#![allow(unsafe_code, reason = "SQLite takes replacements of system calls and its mutexes only through C")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
#[cfg(feature = "postgresql")]
use std::sync::atomic::AtomicI32;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::ffi;

#[cfg(target_os = "linux")]
use super::fcntl_locks;
use crate::config::log;
use crate::error::{Error, Result, require};
use crate::file;

/// The number of forks between this process and the one that registered the handlers.
static FORKS: AtomicU64 = AtomicU64::new(0);

const MUTEXES: &[c_int] = &[
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_VFS2,
    ffi::SQLITE_MUTEX_STATIC_VFS3,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_MEM,
    #[cfg(target_os = "linux")]
    fcntl_locks::MUTEX,
];

/// Gives SQLite the functions of this crate for `stat`, `fstat` and `pwrite`, for links, for
/// opening and for locking. The store calls this before it opens a file. Fails with `GeneralError`
/// if SQLite refuses one of them.
pub fn prepare() -> Result<()> {
    static PREPARED: OnceLock<Result<()>> = OnceLock::new();
    *PREPARED.get_or_init(set_calls)
}

/// Returns whether SQLite's locks belong to open file descriptions, so that closing another
/// descriptor of a file keeps them.
#[cfg(target_os = "linux")]
pub(super) use fcntl_locks::belong_to_descriptions as locks_belong_to_descriptions;

/// Returns `false`: on other systems SQLite's locks belong to the process.
#[cfg(not(target_os = "linux"))]
pub(super) fn locks_belong_to_descriptions() -> bool {
    false
}

fn set_calls() -> Result<()> {
    // SAFETY: SQLite allows its initialisation at any time and from any thread. NULL selects the
    // default VFS.
    let vfs = unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_vfs_find(std::ptr::null()).as_ref()
    };
    let vfs = vfs.ok_or(Error::GeneralError)?;
    let set = vfs.xSetSystemCall.ok_or(Error::GeneralError)?;
    type Call = unsafe extern "C" fn();
    type Stat = unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int;
    type Output = unsafe extern "C" fn(c_int, *const c_void, usize, libc::off_t) -> isize;
    #[cfg(target_os = "linux")]
    type Open = unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int;
    #[cfg(target_os = "linux")]
    type Close = unsafe extern "C" fn(c_int) -> c_int;
    #[cfg(target_os = "linux")]
    type Control = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;
    #[cfg(target_os = "linux")]
    type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, libc::off_t) -> *mut c_void;
    // SAFETY: SQLite calls a function under such a name with the arguments of the C function of
    // that name, and these functions take the same arguments. All are functions of this object,
    // which is a program or a library that is never unmapped (abi/pkcs11/build.rs: nodelete).
    let outcomes = unsafe {
        let stat = std::mem::transmute::<Stat, Call>(stat);
        let fstat = std::mem::transmute::<unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int, Call>(fstat);
        let vfs = std::ptr::from_ref(vfs).cast_mut();
        [
            set(vfs, c"stat".as_ptr(), Some(stat)),
            set(vfs, c"fstat".as_ptr(), Some(fstat)),
            set(vfs, c"pwrite".as_ptr(), Some(std::mem::transmute::<Output, Call>(pwrite))),
            #[cfg(target_pointer_width = "64")]
            set(vfs, c"pwrite64".as_ptr(), Some(std::mem::transmute::<Output, Call>(pwrite))),
            #[cfg(target_os = "linux")]
            set(vfs, c"lstat".as_ptr(), Some(std::mem::transmute::<Stat, Call>(fcntl_locks::lstat))),
            #[cfg(target_os = "linux")]
            set(vfs, c"open".as_ptr(), Some(std::mem::transmute::<Open, Call>(fcntl_locks::open))),
            #[cfg(target_os = "linux")]
            set(vfs, c"close".as_ptr(), Some(std::mem::transmute::<Close, Call>(fcntl_locks::close))),
            #[cfg(target_os = "linux")]
            set(vfs, c"fcntl".as_ptr(), Some(std::mem::transmute::<Control, Call>(fcntl_locks::fcntl))),
            #[cfg(target_os = "linux")]
            set(vfs, c"mmap".as_ptr(), Some(std::mem::transmute::<Map, Call>(fcntl_locks::mmap))),
        ]
    };
    require(outcomes.iter().all(|outcome| *outcome == ffi::SQLITE_OK), Error::GeneralError)?;
    Ok(())
}

/// Runs before a fork. Waits until no thread is inside SQLite's global state or the log.
///
/// # Safety
/// The same thread calls [`release`] after the fork, in both processes.
pub unsafe fn hold() {
    // A child could not finish what another thread begins. `initialize` reports an error.
    let _ = prepare();
    for &id in MUTEXES {
        // SAFETY: the static mutexes live as long as the process.
        unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(id)) };
    }
    log::hold();
}

/// Runs after the fork, in the parent and in the child.
///
/// # Safety
/// This thread called [`hold`] before the fork.
pub unsafe fn release() {
    log::release();
    for &id in MUTEXES.iter().rev() {
        // SAFETY: `hold` took them in this thread, which continues in both processes.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(id)) };
    }
}

/// Counts a fork, in the child. Closes the inherited descriptors of locks and of sockets.
pub fn count() {
    #[cfg(target_os = "linux")]
    fcntl_locks::forget_parent();
    #[cfg(feature = "postgresql")]
    close_sockets();
    FORKS.fetch_add(1, Ordering::AcqRel);
}

/// The sockets of connections to a database server; -1 in a free place.
#[cfg(feature = "postgresql")]
static SOCKETS: [AtomicI32; 64] = [const { AtomicI32::new(-1) }; 64];

/// A socket that is closed in the child of a fork. Otherwise the child would keep the connection of
/// a parent that was killed, and with it the transaction and its locks.
#[cfg(feature = "postgresql")]
pub(super) struct Socket(&'static AtomicI32);

#[cfg(feature = "postgresql")]
impl Socket {
    /// Registers a descriptor. Drop the result before the descriptor is closed. Returns `None` if
    /// all places are taken.
    pub(super) fn register(descriptor: c_int) -> Option<Self> {
        let free = |place: &&AtomicI32| {
            place.compare_exchange(-1, descriptor, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        SOCKETS.iter().find(free).map(Self)
    }
}

#[cfg(feature = "postgresql")]
impl Drop for Socket {
    fn drop(&mut self) {
        self.0.store(-1, Ordering::Release);
    }
}

/// Closes the sockets of the parent in the child of a fork. Async-signal-safe.
#[cfg(feature = "postgresql")]
fn close_sockets() {
    for place in &SOCKETS {
        let descriptor = place.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 {
            // SAFETY: the child never uses the connections of its parent, so that no other code
            // uses or closes this descriptor.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Calls stat(2) for SQLite.
unsafe extern "C" fn stat(path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: SQLite's own arguments, unchanged.
    let outcome = unsafe { libc::stat(path, to) };
    // SAFETY: SQLite provides the memory for the result.
    unsafe { report_device(outcome, to) }
}

/// Calls fstat(2) for SQLite.
unsafe extern "C" fn fstat(file: c_int, to: *mut libc::stat) -> c_int {
    // SAFETY: SQLite's own arguments, unchanged.
    let outcome = unsafe { libc::fstat(file, to) };
    // SAFETY: SQLite provides the memory for the result.
    unsafe { report_device(outcome, to) }
}

/// Calls pwrite(2) for SQLite. Returns 0, which means a full disk to SQLite, if a quota of the user
/// is exhausted or a file would exceed a limit on its length.
unsafe extern "C" fn pwrite(file: c_int, bytes: *const c_void, len: usize, at: libc::off_t) -> isize {
    if file::expect_allowed(at.cast_unsigned().saturating_add(len as u64)).is_err() {
        return 0;
    }
    // SAFETY: SQLite's own arguments, unchanged.
    let written = unsafe { libc::pwrite(file, bytes, len, at) };
    let is_limited =
        || matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EDQUOT | libc::EFBIG));
    if written < 0 && is_limited() { 0 } else { written }
}

/// Changes the result to the device number that this process reports. Returns the outcome.
///
/// # Safety
/// `to` is writable, and filled if the outcome is 0.
unsafe fn report_device(outcome: c_int, to: *mut libc::stat) -> c_int {
    if outcome == 0 {
        // Device numbers of Linux have at most 44 bits.
        let forks = FORKS.load(Ordering::Acquire) << 44;
        // SAFETY: filled, by the caller's promise.
        unsafe { (*to).st_dev = (*to).st_dev.wrapping_add(forks as libc::dev_t) };
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_limit_of_the_user_is_a_full_disk_to_sqlite() {
        // Not in /tmp, because a tmpfs has no such limit.
        let mut file = tempfile::tempfile_in("/var/tmp").expect("a file");
        // Find the end of the longest possible file. A byte there fails with EFBIG.
        let end = (0..63).rev().fold(0u64, |end, bit| {
            let longer = end | 1 << bit;
            if file.seek(SeekFrom::Start(longer)).is_ok() { longer } else { end }
        });
        // SAFETY: one byte.
        let written = unsafe { super::pwrite(file.as_raw_fd(), [0u8].as_ptr().cast(), 1, end.cast_signed()) };
        assert_eq!(written, 0);
    }
}
