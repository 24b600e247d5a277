//! The store of a token in an SQLite file. The [`Pool`] closes the file when another file needs its
//! place, and the next use opens the file again.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::error;

use super::attempt_lock::AttemptLock;
use super::changes::is_rested;
use super::failure::{log_failure, log_io_failure};
use super::file_identity::FileId;
use super::pool::Pool;
use super::store_file::{Closed, Handle, State};
use super::{Kept, OpenFile};
use crate::error::{Error, Result};
use crate::file_lock::Mode;
use crate::store::descriptors;
use crate::store::{Attempt, Change, Header, Purpose, Role, Row, Snapshot, Store, Work};
use crate::sync::lock;

/// The store of one token in an SQLite file.
pub struct SqliteStore {
    handle: Arc<Handle>,
    pool: Arc<Pool>,
}

/// A file that a call is using. It is not closed meanwhile.
struct InUse<'a> {
    file: Option<Arc<OpenFile>>,
    pool: &'a Pool,
}

impl Deref for InUse<'_> {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        self.file.as_deref().expect("a file until the drop")
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.file = None;
        self.pool.wake();
    }
}

impl SqliteStore {
    /// Opens a token file, with a pool of its own.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_in(&Pool::new(1), path)
    }

    pub(super) fn open_in(pool: &Arc<Pool>, path: &Path) -> Result<Self> {
        let opened = open_with_place(pool, path)?;
        let handle = Arc::new(Handle {
            path: path.to_owned(),
            file: opened.file,
            write_protected: AtomicBool::new(opened.is_write_protected()),
            state: Mutex::new(State::Open(Arc::new(opened))),
            last_use: AtomicU64::new(pool.tick()),
        });
        pool.list(&handle);
        Ok(Self { handle, pool: Arc::clone(pool) })
    }

    /// Opens a token file that this process knows. Fails with `DeviceRemoved` if it was removed or
    /// replaced.
    pub(super) fn open_again(pool: &Arc<Pool>, path: &Path, file: FileId) -> Result<Self> {
        expect_file(path, file)?;
        let store = Self::open_in(pool, path)?;
        // Another process may have replaced the file before it was opened.
        if store.file() == file { Ok(store) } else { Err(Error::DeviceRemoved) }
    }

    /// Returns the identity of the token file.
    pub(super) fn file(&self) -> FileId {
        self.handle.file
    }

    /// Calls `work` while no process can write to the file. If it succeeds, the file is a leftover:
    /// its content is removed, and every process that has it open ends its login.
    pub(crate) fn retire<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.file_in_use()?.retire(work)
    }

    /// Returns the open file. Opens it if it is closed.
    fn file_in_use(&self) -> Result<InUse<'_>> {
        self.use_file(&mut lock(&self.handle.state))
    }

    fn use_file(&self, state: &mut State) -> Result<InUse<'_>> {
        self.handle.last_use.store(self.pool.tick(), Ordering::Relaxed);
        let file = match state {
            State::Open(file) => Arc::clone(file),
            State::Closed(closed) => {
                let opened = Arc::new(self.reopen(closed)?);
                *state = State::Open(Arc::clone(&opened));
                self.pool.list(&self.handle);
                opened
            }
        };
        Ok(InUse { file: Some(file), pool: &self.pool })
    }

    fn reopen(&self, closed: &Closed) -> Result<OpenFile> {
        let handle = &self.handle;
        expect_file(&handle.path, handle.file)?;
        let opened = open_with_place(&self.pool, &handle.path)?;
        // Another process may have replaced the file before it was opened. The stamp is taken after
        // SQLite first read its data version, so that no change between the two is missed.
        let outcome = expect_file(&handle.path, handle.file).and_then(|()| {
            let noted = opened.note_others(&lock(&opened.writer));
            noted.map_err(|reason| log_failure(&handle.path, "open again", &reason))
        });
        if let Err(reason) = outcome {
            drop(opened);
            self.pool.free_place();
            return Err(reason);
        }
        let same = closed.is_current(&handle.path);
        opened.restore(Kept { others_wrote: closed.kept.others_wrote || !same, ..closed.kept });
        Ok(opened)
    }

    /// Takes the lock that is held while a PIN is tried.
    fn lock_attempt(&self, mode: Mode) -> Result<AttemptLock> {
        let path = &self.handle.path;
        AttemptLock::beside(path, mode).map_err(|reason| log_io_failure(path, "try a PIN", &reason))
    }

    /// Calls `closed` with the known facts if the file is closed and has not changed since.
    /// Otherwise calls `open` with the file, which is opened if necessary.
    fn ask<T>(
        &self,
        closed: impl FnOnce(&Closed) -> T,
        open: impl FnOnce(&OpenFile) -> Result<T>,
    ) -> Result<T> {
        let mut state = lock(&self.handle.state);
        match &*state {
            State::Closed(known) if known.is_current(&self.handle.path) => Ok(closed(known)),
            _ => {
                let file = self.use_file(&mut state)?;
                drop(state);
                open(&file)
            }
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        if self.pool.forget(&self.handle) {
            let closed = State::unknown();
            drop(std::mem::replace(&mut *lock(&self.handle.state), closed));
            self.pool.free_place();
        }
    }
}

/// Opens a token file in a place of the pool. If the process has no descriptors left, closes other
/// files of the pool.
fn open_with_place(pool: &Pool, path: &Path) -> Result<OpenFile> {
    pool.take_place()?;
    loop {
        descriptors::set_shortage(false);
        match OpenFile::open(path) {
            Ok(opened) => return Ok(opened),
            Err(Error::HostMemory) if pool.shrink() => {}
            Err(reason) => {
                pool.free_place();
                return Err(reason);
            }
        }
    }
}

/// Fails with `DeviceRemoved` if the name of a token file leads to another file, or to no file.
fn expect_file(path: &Path, file: FileId) -> Result<()> {
    let what = match std::fs::symlink_metadata(path) {
        Ok(data) if FileId::from(&data) == file => return Ok(()),
        Ok(_) => "another file has its name",
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => "no file has its name",
        Err(reason) => return Err(log_io_failure(path, "open again", &reason)),
    };
    error!(file = %path.display(), "the token's file was removed or replaced: {what}");
    Err(Error::DeviceRemoved)
}

impl Store for SqliteStore {
    fn header(&self) -> Result<Header> {
        self.file_in_use()?.header()
    }

    fn is_open(&self) -> bool {
        matches!(&*lock(&self.handle.state), State::Open(_))
    }

    fn initialize(&self, header: &Header) -> Result<()> {
        self.file_in_use()?.initialize(header)
    }

    fn relabel(&self, label: &[u8; 32]) -> Result<()> {
        self.file_in_use()?.relabel(label)
    }

    fn begin_attempt(&self, role: Role, limit: u32) -> Result<Attempt> {
        let lock = self.lock_attempt(Mode::Shared)?;
        let lock = match self.file_in_use()?.attempt(role, limit) {
            Err(Error::PinLocked) => {
                drop(lock);
                let alone = self.lock_attempt(Mode::Exclusive)?;
                self.file_in_use()?.attempt(role, limit).map(|()| alone)
            }
            outcome => outcome.map(|()| lock),
        };
        lock.map(|lock| Box::new(lock) as Attempt)
    }

    fn forgive(&self, role: Role) -> Result<()> {
        self.file_in_use()?.forgive(role)
    }

    fn take_back(&self, role: Role, count: u32) -> Result<()> {
        self.file_in_use()?.take_back(role, count)
    }

    fn is_write_protected(&self) -> bool {
        match &*lock(&self.handle.state) {
            State::Open(file) => file.is_write_protected(),
            State::Closed(_) => self.handle.write_protected.load(Ordering::Acquire),
        }
    }

    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot> {
        self.file_in_use()?.load(each)
    }

    fn record(&self, id: i64) -> Result<Option<Vec<u8>>> {
        self.file_in_use()?.record(id)
    }

    fn transact(&self, purpose: Purpose, work: &mut Work<'_>) -> Result<()> {
        self.file_in_use()?.transact(purpose, work)
    }

    fn tidy(&self) {
        // A file that cannot be opened is tidied at the next login.
        if let Ok(file) = self.file_in_use() {
            file.tidy();
        }
    }

    fn is_outdated(&self) -> Result<bool> {
        self.file_in_use()?.is_outdated()
    }

    fn changed_since(&self, seen: Change) -> Result<bool> {
        let closed = |closed: &Closed| {
            closed.change != seen || closed.kept.others_wrote && is_rested(closed.kept.loaded)
        };
        self.ask(closed, |file| file.changed_since(seen))
    }

    fn suspicious_since(&self, seen: Change) -> Result<bool> {
        let closed = |closed: &Closed| {
            closed.change == seen && closed.kept.others_wrote && is_rested(closed.kept.loaded)
        };
        self.ask(closed, |file| file.suspicious_since(seen))
    }

    fn copy(&self, path: &Path) -> Result<()> {
        self.file_in_use()?.copy(path)
    }

    fn damage(&self) -> Result<Vec<String>> {
        self.file_in_use()?.damage()
    }
}
