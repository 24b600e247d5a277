//! A VFS of SQLite (<https://sqlite.org/vfs.html>) that passes calls to the default VFS. It records
//! writes, truncations, deletions and syncs. It can also make chosen calls fail.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR_DELETE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_SHMMAP,
    SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_READONLY,
    SQLITE_READONLY_DIRECTORY, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// A recorded event. The name of a file is the last part of its path.
#[derive(Debug, Clone)]
pub enum Event {
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        len: usize,
    },
    Delete {
        file: String,
    },
    Sync {
        file: String,
    },
    /// A line that the process added.
    Said(String),
}

/// `None` before the start and after the end.
static LOG: Mutex<Option<Vec<Event>>> = Mutex::new(None);
static BASE: AtomicPtr<sqlite3_vfs> = AtomicPtr::new(null_mut());

/// Notes an event, between [`start`] and [`stop`].
pub fn note(event: Event) {
    if let Some(log) = &mut *LOG.lock().unwrap_or_else(PoisonError::into_inner) {
        log.push(event);
    }
}

/// Sets this VFS as the default of new connections, and starts to record.
pub fn start() {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    install();
}

/// The errors of file system calls.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
    /// ENOSPC
    Full,
    /// EIO
    Broken,
    /// EROFS
    ReadOnly,
}

/// The calls that can fail.
#[derive(Clone, Copy)]
enum Call {
    Open,
    Write,
    Sync,
    Truncate,
    Delete,
    Index,
}

/// The calls that fail: the first one, and their number.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub how: Failure,
    pub first: u64,
    pub count: u64,
}

static FAULT: Mutex<(Option<Fault>, u64)> = Mutex::new((None, 0));

/// Sets the calls that fail, and restarts the count at 0. Returns the number of calls since the
/// last restart.
pub fn set_fault(fault: Option<Fault>) -> u64 {
    let mut state = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *state, (fault, 0)).1
}

/// Counts a call. If the call fails, returns the result code of SQLite's own VFS for this error.
fn fails(call: Call) -> Option<c_int> {
    let mut state = FAULT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = state.1;
    state.1 += 1;
    let fault = state.0?;
    if number < fault.first || number - fault.first >= fault.count {
        return None;
    }
    Some(match (call, fault.how) {
        (Call::Write, Failure::Full) => SQLITE_FULL,
        (Call::Write, Failure::Broken) => SQLITE_IOERR_WRITE,
        (Call::Write, Failure::ReadOnly) => SQLITE_READONLY,
        (Call::Open, Failure::ReadOnly) => SQLITE_READONLY_DIRECTORY,
        // `SQLITE_READONLY` would mean that a readable index exists.
        (Call::Open, _) | (Call::Index, Failure::ReadOnly) => SQLITE_CANTOPEN,
        (Call::Index, Failure::Full) => SQLITE_IOERR_SHMSIZE,
        (Call::Index, Failure::Broken) => SQLITE_IOERR_SHMMAP,
        (Call::Sync, _) => SQLITE_IOERR_FSYNC,
        (Call::Truncate, _) => SQLITE_IOERR_TRUNCATE,
        (Call::Delete, _) => SQLITE_IOERR_DELETE,
    })
}

/// Sets this VFS as the default of new connections.
pub fn install() {
    // SAFETY: NULL asks for the default one, which lives as long as the process.
    let base = unsafe { sqlite3_vfs_find(std::ptr::null()) };
    BASE.store(base, Ordering::Release);
    // SAFETY: SQLite gave the address of a complete VFS.
    let base = unsafe { &*base };
    let vfs = Box::new(sqlite3_vfs {
        szOsFile: OWN as c_int + base.szOsFile,
        zName: c"recorder".as_ptr(),
        xOpen: Some(open),
        xDelete: Some(delete),
        ..*base
    });
    // SAFETY: the VFS is never freed. Its other functions are those of the base, which use only the
    // fields of the VFS.
    assert_eq!(unsafe { sqlite3_vfs_register(Box::into_raw(vfs), 1) }, SQLITE_OK);
}

/// Ends the recording and returns it.
pub fn stop() -> Vec<Event> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a record")
}

/// An open file. The file of the base VFS follows it in the same memory.
#[repr(C)]
struct File {
    methods: *const sqlite3_io_methods,
    name: *mut String,
}

/// The offset of the base VFS's file: a multiple of SQLite's alignment.
const OWN: usize = size_of::<File>().next_multiple_of(8);

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Without xFetch, SQLite does not read or write through a mapping.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The file of the base VFS.
///
/// # Safety
/// `file` was passed to `open`: SQLite made it `OWN` bytes longer than the file of the base.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: within the memory of the file, by the caller's promise.
    unsafe { file.byte_add(OWN) }
}

/// The file's name.
///
/// # Safety
/// `file` was opened by `open` and not closed.
unsafe fn name(file: *mut sqlite3_file) -> String {
    // SAFETY: `open` put a boxed name there, which `close` frees.
    unsafe { (*(*file.cast::<File>()).name).clone() }
}

/// The last part of a path that SQLite gives.
fn last_part(path: *const c_char) -> String {
    if path.is_null() {
        return String::new();
    }
    // SAFETY: SQLite gives a string that ends with a zero, for the time of the call.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned();
    Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    path: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: SQLite gave memory for a file. SQLite does not close a file without methods.
    unsafe { (*file).pMethods = std::ptr::null() };
    if let Some(outcome) = fails(Call::Open) {
        return outcome;
    }
    // SAFETY: SQLite's arguments are passed to the base, with the part of the memory that belongs
    // to the base.
    unsafe {
        let outcome = (*base).xOpen.expect("a function")(base, path, real(file), flags, out);
        if outcome == SQLITE_OK {
            let own = file.cast::<File>();
            (*own).name = Box::into_raw(Box::new(last_part(path)));
            (*own).methods = &raw const METHODS;
        }
        outcome
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, path: *const c_char, sync_dir: c_int) -> c_int {
    let base = BASE.load(Ordering::Acquire);
    let file = last_part(path);
    if let Some(outcome) = fails(Call::Delete) {
        return outcome;
    }
    // SAFETY: SQLite's arguments are passed to the base.
    let outcome = unsafe { (*base).xDelete.expect("a function")(base, path, sync_dir) };
    if outcome == SQLITE_OK {
        note(Event::Delete { file });
    }
    outcome
}

/// Calls a function of the base VFS's file with SQLite's arguments.
macro_rules! forward {
    ($file:ident, $function:ident $(, $argument:ident)*) => {
        // SAFETY: SQLite calls this with a file that `open` opened; its arguments are passed
        // unchanged.
        unsafe { (*(*real($file)).pMethods).$function.expect("a function")(real($file) $(, $argument)*) }
    };
}

/// Functions that only pass their arguments to the base VFS's file.
macro_rules! pass {
    ($($own:ident($($argument:ident: $type:ty),*) => $function:ident;)*) => {
        $(unsafe extern "C" fn $own(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            forward!(file, $function $(, $argument)*)
        })*
    };
}

pass! {
    read(to: *mut c_void, len: c_int, at: sqlite3_int64) => xRead;
    size(out: *mut sqlite3_int64) => xFileSize;
    lock(level: c_int) => xLock;
    unlock(level: c_int) => xUnlock;
    check_reserved(out: *mut c_int) => xCheckReservedLock;
    control(code: c_int, argument: *mut c_void) => xFileControl;
    sector_size() => xSectorSize;
    characteristics() => xDeviceCharacteristics;
    shm_lock(at: c_int, count: c_int, flags: c_int) => xShmLock;
    shm_unmap(delete: c_int) => xShmUnmap;
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let outcome = forward!(file, xClose);
    // SAFETY: `open` put it there; a closed file is not used again.
    drop(unsafe { Box::from_raw((*file.cast::<File>()).name) });
    outcome
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    if let Some(outcome) = fails(Call::Write) {
        return outcome;
    }
    let outcome = forward!(file, xWrite, from, len, at);
    if outcome == SQLITE_OK {
        // SAFETY: SQLite gives `len` bytes to be written.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) }.to_vec();
        // SAFETY: an open file.
        note(Event::Write { file: unsafe { name(file) }, at: at as usize, bytes });
    }
    outcome
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    if let Some(outcome) = fails(Call::Truncate) {
        return outcome;
    }
    let outcome = forward!(file, xTruncate, len);
    if outcome == SQLITE_OK {
        // SAFETY: an open file.
        note(Event::Truncate { file: unsafe { name(file) }, len: len as usize });
    }
    outcome
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    if let Some(outcome) = fails(Call::Sync) {
        return outcome;
    }
    let outcome = forward!(file, xSync, flags);
    if outcome == SQLITE_OK {
        // SAFETY: an open file.
        note(Event::Sync { file: unsafe { name(file) } });
    }
    outcome
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    if extend != 0
        && let Some(outcome) = fails(Call::Index)
    {
        return outcome;
    }
    forward!(file, xShmMap, page, size, extend, out)
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    forward!(file, xShmBarrier)
}
