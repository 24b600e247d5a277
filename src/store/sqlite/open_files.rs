//! The token files that SQLite has open in this process.
//!
//! SQLite's locks may belong to the process (`src/store/locks.rs` says when they do not). Then
//! closing any descriptor of a file releases all of them. So no other code opens such a file.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;

use super::stamp::{FileId, Stamp};
use crate::file;
use crate::store::permissions;

/// How long [`with_users`] waits for [`read_unopened`], which holds the lock for some microseconds.
/// The lock stays locked only in a forked child whose parent held it. Such a child reads no file
/// without SQLite.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The open files of a process, each with the number of its users.
struct OpenFiles {
    /// The process that opened the files. A forked child begins an empty list.
    process: u32,
    users: HashMap<FileId, usize>,
}

static OPEN: Mutex<Option<OpenFiles>> = Mutex::new(None);

/// An entry of the list. Dropping it removes the entry. `OpenFile` drops it after the connections
/// to the file.
pub(super) struct Registered(FileId);

impl Registered {
    pub(super) fn new(file: FileId) -> Self {
        with_users(|users| *users.entry(file).or_default() += 1);
        Self(file)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        with_users(|users| {
            if let Some(count) = users.get_mut(&self.0) {
                *count -= 1;
                if *count == 0 {
                    users.remove(&self.0);
                }
            }
        });
    }
}

fn with_users(work: impl FnOnce(&mut HashMap<FileId, usize>)) {
    let start = Instant::now();
    let mut open = loop {
        match try_lock() {
            Some(open) => break open,
            None if start.elapsed() > LONGEST_WAIT => return,
            None => std::thread::yield_now(),
        }
    };
    let process = std::process::id();
    if open.as_ref().is_none_or(|open| open.process != process) {
        *open = Some(OpenFiles { process, users: HashMap::new() });
    }
    if let Some(open) = &mut *open {
        work(&mut open.users);
    }
}

fn try_lock() -> Option<MutexGuard<'static, Option<OpenFiles>>> {
    match OPEN.try_lock() {
        Ok(open) => Some(open),
        Err(TryLockError::Poisoned(open)) => Some(open.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Reads the first bytes of the token file at `path`, without SQLite. Returns the file's stamp, as
/// of a file without a write-ahead log. Returns `None` if SQLite has the file open, or if the file
/// fails [`file::open`] or [`permissions::check_file`] or changed a moment ago.
pub(super) fn read_unopened(path: &Path, bytes: &mut [u8]) -> Option<Stamp> {
    // SQLite opens no token file until this lock is released.
    let open = try_lock()?;
    // While no file is open, as at the start of a process, the process ID is not needed. It would
    // cost a system call for each file.
    let open = open.as_ref().filter(|open| !open.users.is_empty());
    let users = open.filter(|open| open.process == std::process::id()).map(|open| &open.users);
    let is_open = |file: FileId| users.is_some_and(|users| users.contains_key(&file));
    if users.is_some() && is_open(FileId::from(&std::fs::symlink_metadata(path).ok()?)) {
        return None;
    }
    let start = SystemTime::now();
    let file = file::open(path, OFlags::RDONLY, 0).ok()?;
    let outcome = file.read_exact_at(bytes, 0);
    let data = file.metadata().ok()?;
    if is_open(FileId::from(&data)) {
        // Another token got this name a moment ago. A descriptor that is never closed releases no
        // locks.
        std::mem::forget(file);
        return None;
    }
    outcome.ok()?;
    permissions::check_file(&data).ok()?;
    let stamp = Stamp::alone(&data);
    // After a change during the read, the stamp was not settled at `start`.
    stamp.was_settled(start).then_some(stamp)
}
