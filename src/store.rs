//! The persistent store of a token. Secrets are encrypted before they reach a store: a store sees
//! no secret.
//!
//! Several processes share a store, so each process asks the store whether another process has
//! changed it. The interface has batches of writes and a number of the latest change. The processes
//! of several hosts share a store on a database server.

use std::path::Path;
use std::sync::Arc;

use self::server::TokenServer;
use self::source::TokenSource;
use self::sqlite::source::TokenDirectory;
use crate::config::Settings;
use crate::error::Result;

pub mod change_counter;
mod descriptors;
#[cfg(target_os = "linux")]
mod fcntl_locks;
#[cfg(feature = "postgresql")]
mod fingerprint;
pub mod fork;
pub(crate) mod permissions;
#[cfg(feature = "postgresql")]
mod postgresql;
pub mod seal;
pub(crate) mod server;
pub(crate) mod source;
pub mod sqlite;

pub use self::server::{Remark, ServerState};

/// A PIN attempt that is counted. It ends when this value is dropped: after its failure was
/// forgiven, or when the PIN was wrong.
pub(crate) type Attempt = Box<dyn Send>;

/// Returns the configured source of tokens. Fails with `DeviceError` if it cannot be used.
pub(crate) fn source(settings: &Settings) -> Result<Arc<dyn TokenSource>> {
    Ok(match server(settings)? {
        Some(server) => server,
        None => Arc::new(TokenDirectory::open(settings)?),
    })
}

/// Connects to the configured database server. `None` if the configuration names no server: then
/// the tokens are files. Fails with `DeviceError` if the server cannot be used.
#[cfg(feature = "postgresql")]
pub(crate) fn server(settings: &Settings) -> Result<Option<Arc<dyn TokenServer>>> {
    let Some(rules) = &settings.database else { return Ok(None) };
    postgresql::Database::connect(rules).map(|database| Some(database as Arc<dyn TokenServer>))
}

/// Returns `None`: the tokens are files. The configuration of a build without a client for a
/// database server names no server.
#[cfg(not(feature = "postgresql"))]
pub(crate) fn server(_: &Settings) -> Result<Option<Arc<dyn TokenServer>>> {
    Ok(None)
}

/// The data of one token.
///
/// Each object has a row and a record. Rows are small, and a process reads all of them at once. A
/// record is read when its object is used.
pub trait Store: Send + Sync {
    /// Returns the facts about the token itself.
    fn header(&self) -> Result<Header>;

    /// Returns whether the file of the store is open. A closed one is opened when it is needed.
    fn is_open(&self) -> bool;

    /// Deletes all objects and replaces the header.
    fn initialize(&self, header: &Header) -> Result<()>;

    /// Counts a failure *before* a PIN is tried, so that the attempt counts even if the process is
    /// killed. [`forgive`](Self::forgive) resets the count. If the limit is reached, waits until no
    /// other attempt runs, because other attempts may succeed and reset the count. Fails with
    /// `PinLocked` if the limit is still reached.
    fn begin_attempt(&self, role: Role, limit: u32) -> Result<Attempt>;

    /// Resets the failures of a PIN to zero.
    fn forgive(&self, role: Role) -> Result<()>;

    /// Replaces the label. The rest stays.
    fn relabel(&self, label: &[u8; 32]) -> Result<()>;

    /// Subtracts failures of a PIN that were counted although the PIN was not wrong.
    fn take_back(&self, role: Role, count: u32) -> Result<()>;

    /// Returns whether the store is currently read-only.
    fn is_write_protected(&self) -> bool;

    /// Calls `each` with every row, in order of their numbers. Returns the state that the rows
    /// belong to.
    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot>;

    /// Returns the record of a row; `None` if there is no such row.
    fn record(&self, id: i64) -> Result<Option<Vec<u8>>>;

    /// Announces that the records of these rows will be read. A store on a server reads them
    /// together.
    fn prefetch(&self, _: &[i64]) {}

    /// Runs `work` in one transaction, and stores the state that it returns. Runs `work` again
    /// after a conflict with another transaction, and after space was freed on a full disk. An
    /// acknowledged transaction survives any crash.
    fn transact(&self, purpose: Purpose, work: &mut Work<'_>) -> Result<()>;

    /// Removes old bytes that an earlier call or a killed process left in the file, unless a
    /// process is reading it.
    fn tidy(&self);

    /// Returns whether the file has an older format, which may hold secret attributes in clear.
    fn is_outdated(&self) -> Result<bool>;

    /// Returns the incarnation of the token. After a call of `changed_since`, it may be the
    /// incarnation of the state that this call found.
    fn incarnation(&self) -> Result<i64> {
        Ok(self.header()?.change.incarnation())
    }

    /// Returns whether there was a commit since that state, or a
    /// [suspicious](Self::suspicious_since) write. Cheap if there was no commit since the last
    /// call.
    fn changed_since(&self, seen: Change) -> Result<bool>;

    /// Like [`changed_since`](Self::changed_since), for a caller that is about to use a key. Never
    /// waits for a server: the answer may belong to the question of an earlier call. Returns `None`
    /// if there is no answer yet, or if another thread is waiting for the server.
    fn noticed_since(&self, seen: Change) -> Result<Option<bool>> {
        self.changed_since(seen).map(Some)
    }

    /// Returns whether a server announces the commits of other processes, so that
    /// [`noticed_since`](Self::noticed_since) costs little until there is one.
    fn announces_commits(&self) -> bool {
        false
    }

    /// Returns whether the store cannot be reached now, and the configuration allows the use of the
    /// keys in memory meanwhile.
    fn is_outage_allowed(&self) -> bool {
        false
    }

    /// Returns whether another process wrote since the rows were loaded, and left the state as it
    /// was. The cause is a PIN attempt or a new label in another process, or altered rows. Returns
    /// `false` for some time after a load, so that a process does not load all the time.
    fn suspicious_since(&self, seen: Change) -> Result<bool>;

    /// Copies one state into the empty file at `path`. Other processes may write meanwhile: the
    /// copy contains each of their commits completely or not at all.
    fn copy(&self, path: &Path) -> Result<()>;

    /// Looks for damage that can be seen without a PIN.
    fn damage(&self) -> Result<Vec<String>>;
}

/// The result of a search for damage.
pub(crate) struct Inspection {
    pub(crate) objects: u64,
    /// The damage, one sentence each; empty if there is none. If too many objects are damaged,
    /// the last sentence gives the number of damaged objects that the list leaves out.
    pub(crate) damage: Vec<String>,
    /// The labels and types of the first keys that CNSA 2.0 lacks; empty without the token key.
    pub(crate) outside_cnsa2: Vec<String>,
}

/// The work of [`Store::transact`]. Returns the new state; `None` if it has changed nothing.
pub(crate) type Work<'a> = dyn FnMut(&mut dyn Transaction) -> Result<Option<Snapshot>> + 'a;

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Adds or changes objects.
    Write,
    /// Removes an object or replaces a PIN. Afterwards the store removes the old bytes. On a full
    /// disk it uses space that was reserved for this purpose.
    Erase,
    /// Rewrites the token, which may take long. Afterwards the file has the newest format. The
    /// store removes the old bytes.
    Rewrite,
}

/// A transaction that changes a token. From its first call until its end, no other process changes
/// the token.
pub trait Transaction {
    /// Returns the state before the transaction.
    fn before(&mut self) -> Result<Snapshot>;

    /// Does these writes. Returns `false` if a row that is replaced or deleted was not the expected
    /// one, or was missing. Then this write is not done.
    fn apply(&mut self, writes: &[Write<'_>]) -> Result<bool>;

    /// Replaces the PIN record `old` (any record if `old` is `None`) and resets the failures of
    /// that PIN. Returns `false` if the record was no longer `old`.
    fn set_pin(&mut self, role: Role, old: Option<&[u8]>, record: &[u8]) -> Result<bool>;

    /// Calls `each` with every row, in order of their numbers. Returns the record of the object
    /// with this number; `None` if there is no such object.
    fn load(&mut self, id: i64, each: &mut dyn FnMut(Row)) -> Result<Option<Vec<u8>>>;

    /// Returns the next objects after this number, in the order of their numbers. Returns an empty
    /// list after the last one.
    fn objects_after(&mut self, id: i64) -> Result<Vec<(Row, Vec<u8>)>>;
}

/// A state of the store. Later states are greater. A damaged file may contain any number. The
/// largest number is not increased further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub i64);

impl Change {
    /// When a token begins a new incarnation, its states continue at the next multiple of this
    /// number.
    const INCARNATION: i64 = 1 << 40;

    /// Returns the state after the next commit.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the incarnation: a count that rises when the token is initialised again, gets a new
    /// key or is restored with a new state.
    pub(crate) const fn incarnation(self) -> i64 {
        self.0 / Self::INCARNATION
    }

    /// Returns the first state of the next incarnation.
    pub(crate) const fn next_incarnation(self) -> Self {
        Self((self.incarnation() + 1).saturating_mul(Self::INCARNATION))
    }
}

/// The state of the rows that were loaded, with their summary.
#[derive(Clone)]
pub struct Snapshot {
    /// The number of the state.
    pub(crate) change: Change,
    /// The sealed [`summary::Summary`].
    pub(crate) summary: Vec<u8>,
}

/// The authentication tag of an object's record. Each write of the object changes it.
pub(crate) type Tag = [u8; 16];

/// The row of an object.
#[derive(Clone)]
pub struct Row {
    /// The number of the object.
    pub(crate) id: i64,
    /// `CKA_PRIVATE`. If true, the whole record is encrypted.
    pub(crate) private: bool,
    pub(crate) tag: Tag,
    /// The hashes that a search finds the object by: see [`index`].
    pub(crate) index_keys: seal::index::IndexKeys,
}

/// The facts about a token, without its objects.
#[derive(Clone)]
pub struct Header {
    /// The serial number: 16 hexadecimal digits.
    pub(crate) serial: String,
    /// The slot ID that the token asks for.
    pub(crate) slot: u64,
    /// The label: UTF-8, padded with blanks.
    pub(crate) label: [u8; 32],
    pub(crate) so: PinState,
    /// The PIN record and the failures of the user PIN. The record is empty before `C_InitPIN`.
    pub(crate) user: PinState,
    /// The state of the store.
    pub(crate) change: Change,
    /// The sealed summary of the rows. Empty in a header that `Store::header` or
    /// `TokenSource::list` returns.
    pub(crate) summary: Vec<u8>,
}

/// Returns whether a text has the form of a serial number, which names files of the token. Such a
/// text cannot name a file of another directory.
pub(crate) fn is_serial(text: &[u8]) -> bool {
    text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit)
}

/// The stored data of a PIN.
#[derive(Clone, Default)]
pub(crate) struct PinState {
    /// The PIN record; empty if the PIN was never set.
    pub(crate) record: Vec<u8>,
    /// The number of consecutive wrong PINs.
    pub(crate) failures: u32,
}

impl Header {
    pub(crate) fn pin(&self, role: Role) -> &PinState {
        match role {
            Role::SecurityOfficer => &self.so,
            Role::User => &self.user,
        }
    }
}

/// The owner of a PIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The security officer (SO).
    SecurityOfficer,
    /// The normal user.
    User,
}

impl Role {
    /// Returns the beginning of the names of the columns that have this PIN.
    fn prefix(self) -> &'static str {
        match self {
            Self::SecurityOfficer => "so",
            Self::User => "user",
        }
    }
}

/// One write of a batch.
#[derive(Clone, Copy)]
pub enum Write<'a> {
    /// Adds an object.
    Insert(&'a Row, &'a [u8]),
    /// Replaces the object that has this tag.
    Replace(Tag, &'a Row, &'a [u8]),
    /// Deletes the object with this number and tag.
    Delete(i64, Tag),
}

impl Write<'_> {
    /// Returns the number of the object.
    pub fn id(&self) -> i64 {
        match self {
            Write::Insert(row, _) | Write::Replace(_, row, _) => row.id,
            Write::Delete(id, _) => *id,
        }
    }
}
