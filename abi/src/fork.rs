//! What a fork does to SQLite, and what keeps a child's files whole.
//!
//! SQLite keeps a list of the files that the process has open, by device and inode, with the locks that it holds on
//! them. A child inherits the list and not the locks: without this it would believe that it holds those of its parent,
//! and write to a log that the parent deletes at its end ("How To Corrupt An SQLite Database File", 2.6). So each
//! process counts the forks that it stems from, and tells SQLite another device for the same file: what the parent had
//! open is found no more, and the child opens and locks files of its own.
//!
//! And while a fork takes place, no thread is inside SQLite's global state: its static mutexes are held.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use jeton::error::{Error, Result};
use rusqlite::ffi;

/// The forks between this process and the one that registered the handlers.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The static mutexes of SQLite in the order in which it takes them itself.
const MUTEXES: [c_int; 9] = [
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_VFS2,
    ffi::SQLITE_MUTEX_STATIC_VFS3,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_MEM,
];

/// Puts our functions for the calls that tell SQLite which file is which. Before the first file is opened.
pub(crate) fn prepare() -> Result<()> {
    // SAFETY: the initialisation of SQLite may come at any time and from any thread; NULL asks for the default VFS.
    let vfs = unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_vfs_find(std::ptr::null()).as_ref()
    };
    let vfs = vfs.ok_or(Error::GeneralError)?;
    let set = vfs.xSetSystemCall.ok_or(Error::GeneralError)?;
    type Call = unsafe extern "C" fn();
    // SAFETY: SQLite calls what it is given under these names with the arguments of the C functions of that name, which
    // ours take; both are functions of this object, which is never unmapped (build.rs: nodelete).
    let outcomes = unsafe {
        let stat =
            std::mem::transmute::<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int, Call>(stat);
        let fstat = std::mem::transmute::<unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int, Call>(fstat);
        let vfs = std::ptr::from_ref(vfs).cast_mut();
        [set(vfs, c"stat".as_ptr(), Some(stat)), set(vfs, c"fstat".as_ptr(), Some(fstat))]
    };
    if outcomes == [ffi::SQLITE_OK; 2] { Ok(()) } else { Err(Error::GeneralError) }
}

/// Before a fork: waits until no thread is inside.
pub(crate) unsafe extern "C" fn hold() {
    for id in MUTEXES {
        // SAFETY: the static mutexes live as long as the process.
        unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(id)) };
    }
}

/// After it, in the parent and in the child.
pub(crate) unsafe extern "C" fn release() {
    for id in MUTEXES.into_iter().rev() {
        // SAFETY: `hold` took them in this thread, which is the one that goes on in both.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(id)) };
    }
}

/// In the child: what was open is the parent's.
pub(crate) fn count() {
    FORKS.fetch_add(1, Ordering::AcqRel);
}

/// stat(2)
unsafe extern "C" fn stat(path: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: SQLite's arguments as they are.
    let outcome = unsafe { libc::stat(path, to) };
    // SAFETY: SQLite gave room for the answer.
    unsafe { told(outcome, to) }
}

/// fstat(2)
unsafe extern "C" fn fstat(file: c_int, to: *mut libc::stat) -> c_int {
    // SAFETY: SQLite's arguments as they are.
    let outcome = unsafe { libc::fstat(file, to) };
    // SAFETY: SQLite gave room for the answer.
    unsafe { told(outcome, to) }
}

/// The answer, with the device that this process tells.
///
/// # Safety
/// `to` is writable, and filled where the outcome is 0.
unsafe fn told(outcome: c_int, to: *mut libc::stat) -> c_int {
    if outcome == 0 {
        // Linux' numbers of devices have 44 bits at most.
        let forks = FORKS.load(Ordering::Acquire) << 44;
        // SAFETY: filled, by the caller's promise.
        unsafe { (*to).st_dev = (*to).st_dev.wrapping_add(forks as libc::dev_t) };
    }
    outcome
}
