//! The header of the index of the write-ahead log. Every commit of any process changes it before it
//! is acknowledged ("WAL-mode File Format", 2.2.1), and SQLite itself compares it when a
//! transaction begins.
//!
//! The header is read in the memory that SQLite has mapped. Nothing is opened, mapped or locked.

#![allow(unsafe_code, reason = "SQLite shows its mapping only through C")]

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, ffi};

/// Both copies of the header. They differ while a process writes them.
pub(super) type Header = [u32; 24];

/// The size of the regions in which SQLite maps the index.
const REGION: c_int = 32 * 1024;

/// Returns the header; `None` if there is no index. The connection has read a file with a
/// write-ahead log.
pub(super) fn header(connection: &Connection) -> Option<Header> {
    let (mut file, mut region) = (null_mut::<ffi::sqlite3_file>(), null_mut());
    let (name, operation) = (c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER);
    // SAFETY: the connection is open, and SQLite writes a pointer to its file.
    unsafe { ffi::sqlite3_file_control(connection.handle(), name, operation, (&raw mut file).cast()) };
    // SAFETY: `NULL`, or SQLite's file. The table of its functions is `NULL` if the file is closed.
    let map = unsafe { file.as_ref()?.pMethods.as_ref()?.xShmMap? };
    // SAFETY: a function of this file, which writes a pointer to its first region.
    unsafe { map(file, 0, REGION, 0, &raw mut region) };
    let words = NonNull::new(region)?.cast::<AtomicU32>();
    // SAFETY: the region is longer than the header, and SQLite unmaps it only when it closes the
    // file. Other threads and processes may write meanwhile, as while SQLite itself reads it: each
    // word that is read was there, and words of two headers are not a header that was read before.
    Some(std::array::from_fn(|at| unsafe { words.add(at).as_ref() }.load(Ordering::Relaxed)))
}
