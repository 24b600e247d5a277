//! The tokens of the directory or of a database server. The module opens a token when an
//! application uses it. Until then, and after the token was removed from memory, only some facts
//! about it are in memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::error;

use crate::config::Settings;
use crate::error::{Error, Result};
use crate::id::SlotId;
use crate::store::sqlite::stamp::{FileId, Stamp};
use crate::store::sqlite::{Pool, Probing, SqliteStore};
use crate::store::{Header, Store, TokenServer};
use crate::token::{Remains, Token};

/// A token that has a slot.
pub(super) struct Known {
    pub(super) slot: SlotId,
    place: Place,
    pub(super) serial: String,
    /// The token; `None` if it is not in memory. The lock is held while its store is opened.
    token: Mutex<Option<Arc<Token>>>,
    last: Mutex<LastRead>,
    /// Whether it is in the queue of tokens that may be removed from memory.
    is_queued: AtomicBool,
}

/// Where a token is stored.
enum Place {
    File { path: PathBuf, id: FileId },
    Server(Arc<dyn TokenServer>),
}

/// What `C_GetTokenInfo` shows of a token's file.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) label: [u8; 32],
    pub(super) has_user_pin: bool,
    /// The numbers of consecutive wrong PINs of the SO and of the user.
    pub(super) so_failures: u32,
    pub(super) user_failures: u32,
}

/// What was read last of a token. It is used while the token is not in memory or its server cannot
/// be reached.
struct LastRead {
    facts: Facts,
    /// The stamp of the file when it was read; `None` if the facts must be read again.
    stamp: Option<Stamp>,
    remains: Remains,
}

/// The settings, the pool of open files and the database server that all tokens of a module share.
pub(super) struct Home {
    pub(super) settings: Arc<Settings>,
    pub(super) pool: Arc<Pool>,
    /// The server that has the tokens; `None` if they are files.
    pub(super) server: Option<Arc<dyn TokenServer>>,
}

impl Facts {
    fn of(header: &Header) -> Self {
        Self {
            label: header.label,
            has_user_pin: !header.user.record.is_empty(),
            so_failures: header.so.failures,
            user_failures: header.user.failures,
        }
    }
}

impl Home {
    pub(super) fn probing(&self) -> Probing {
        if self.settings.shm_probe { Probing::On } else { Probing::Off }
    }

    /// Makes the token of a store.
    fn token(&self, slot: SlotId, store: Box<dyn Store>, remains: Remains) -> Result<Arc<Token>> {
        Token::resume(slot, Arc::clone(&self.settings), store, remains).map(Arc::new)
    }
}

impl Known {
    /// Returns a token whose header was read from a file with this stamp.
    pub(super) fn closed(slot: SlotId, path: &Path, stamp: Stamp, header: &Header) -> Self {
        let remains = Remains::of_new(header.change);
        let place = Place::File { path: path.to_owned(), id: stamp.file };
        Self::new(slot, place, header, LastRead { facts: Facts::of(header), remains, stamp: Some(stamp) })
    }

    /// Returns a token of a database server.
    pub(super) fn on_server(slot: SlotId, server: &Arc<dyn TokenServer>, header: &Header) -> Self {
        let remains = Remains::of_new(header.change);
        let last = LastRead { facts: Facts::of(header), remains, stamp: None };
        Self::new(slot, Place::Server(Arc::clone(server)), header, last)
    }

    /// Returns a token whose store is open.
    pub(super) fn open(
        home: &Home,
        slot: SlotId,
        path: &Path,
        store: SqliteStore,
        header: &Header,
    ) -> Result<Self> {
        let place = Place::File { path: path.to_owned(), id: store.file() };
        let remains = Remains::default();
        let token = home.token(slot, Box::new(store), remains)?;
        let known =
            Self::new(slot, place, header, LastRead { facts: Facts::of(header), stamp: None, remains });
        *lock(&known.token) = Some(token);
        Ok(known)
    }

    fn new(slot: SlotId, place: Place, header: &Header, last: LastRead) -> Self {
        Self {
            slot,
            place,
            serial: header.serial.clone(),
            token: Mutex::new(None),
            last: Mutex::new(last),
            is_queued: AtomicBool::new(false),
        }
    }

    /// Returns the path and the identity of the token's file; `None` if it is on a server.
    pub(super) fn file(&self) -> Option<(&Path, FileId)> {
        match &self.place {
            Place::File { path, id } => Some((path, *id)),
            Place::Server(_) => None,
        }
    }

    /// Opens the token's store.
    fn store(&self, home: &Home) -> Result<Box<dyn Store>> {
        match &self.place {
            Place::File { path, id } => {
                let store = SqliteStore::open_again(&home.pool, path, home.probing(), *id)?;
                Ok(Box::new(store))
            }
            Place::Server(server) => Ok(Arc::clone(server).open(&self.serial)),
        }
    }

    /// Returns the token. Opens its store if the token is not in memory. Fails with `DeviceRemoved`
    /// if the file was removed or replaced since its slot was made.
    pub(super) fn token(&self, home: &Home) -> Result<Arc<Token>> {
        let mut place = lock(&self.token);
        if let Some(token) = &*place {
            return Ok(Arc::clone(token));
        }
        let token = self
            .store(home)
            .and_then(|store| home.token(self.slot, store, lock(&self.last).remains))
            // `TokenNotRecognized` is the error for a slot whose token was never initialised.
            .map_err(
                |reason| if reason == Error::TokenNotRecognized { Error::DeviceError } else { reason },
            )?;
        if token.serial() != self.serial {
            let file = self.file().map(|(path, _)| path.display());
            error!(?file, serial = self.serial, "the file has another token now");
            return Err(Error::DeviceRemoved);
        }
        *place = Some(Arc::clone(&token));
        Ok(token)
    }

    /// Returns the token if it is in memory.
    pub(super) fn in_memory(&self) -> Option<Arc<Token>> {
        lock(&self.token).clone()
    }

    /// Returns the token if it is in memory. Does not wait while its file is opened or closed.
    pub(super) fn try_in_memory(&self) -> Option<Arc<Token>> {
        self.token.try_lock().ok()?.clone()
    }

    /// Removes the token from memory unless it is in use. This closes its file.
    fn forget(&self) {
        let mut place = lock(&self.token);
        // New references to the token are made only under this lock.
        let unused = |token: &mut Arc<Token>| Arc::strong_count(token) == 1 && token.sessions().all == 0;
        if let Some(token) = place.take_if(unused) {
            let mut last = lock(&self.last);
            last.remains = token.remains();
            last.stamp = None;
        }
    }

    /// Returns the facts of the file, with the changes of other processes.
    pub(super) fn facts(&self, home: &Home) -> Result<Facts> {
        let Place::File { path, id } = &self.place else { return self.facts_on_server(home) };
        let open = self.in_memory().filter(|token| token.is_file_open());
        match open {
            Some(token) => Ok(Facts::of(&token.stored_header()?)),
            None => match self.closed_facts(path, *id) {
                Some(facts) => Ok(facts),
                None => Ok(Facts::of(&self.token(home)?.stored_header()?)),
            },
        }
    }

    /// Returns the facts of a file that is not open. Reads them only if the file changed. `None` if
    /// only SQLite can read them, or if the path has another file now.
    fn closed_facts(&self, path: &Path, file: FileId) -> Option<Facts> {
        let now = SqliteStore::stamp(path)?;
        let mut last = lock(&self.last);
        if last.stamp.as_ref().is_some_and(|stamp| now.has_content_of(stamp)) {
            return Some(last.facts);
        }
        let (header, stamp) = SqliteStore::closed_header(path)?;
        if stamp.file != file || header.serial != self.serial {
            return None;
        }
        last.facts = Facts::of(&header);
        last.stamp = Some(stamp);
        last.remains.latest = last.remains.latest.max(header.change);
        Some(last.facts)
    }

    /// Returns the facts of a token on a server. During an outage, returns those that were read
    /// last.
    fn facts_on_server(&self, home: &Home) -> Result<Facts> {
        match self.token(home).and_then(|token| token.stored_header()) {
            Ok(header) => {
                let mut last = lock(&self.last);
                last.facts = Facts::of(&header);
                Ok(last.facts)
            }
            Err(Error::DeviceError) => Ok(lock(&self.last).facts),
            Err(reason) => Err(reason),
        }
    }

    /// Returns whether the token can only be read.
    pub(super) fn is_write_protected(&self, home: &Home) -> Result<bool> {
        match (self.in_memory(), self.file()) {
            (Some(token), _) => Ok(token.is_write_protected()),
            (None, None) => Ok(false),
            (None, Some((path, _))) if SqliteStore::looks_writable(path) => Ok(false),
            (None, Some(_)) => Ok(self.token(home)?.is_write_protected()),
        }
    }

    /// Marks the token as queued. Returns whether it was not queued before.
    pub(super) fn enter_queue(&self) -> bool {
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Marks the token as not queued. Removes it from memory unless it is in use.
    pub(super) fn leave_queue(&self) {
        self.is_queued.store(false, Ordering::Release);
        self.forget();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
