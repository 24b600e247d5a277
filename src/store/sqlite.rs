//! The store in an SQLite file: write-ahead log, synced before a commit is acknowledged, shared by processes.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use tracing::error;

use super::{Change, Delta, Header, PinState, Role, Store, Stored, Write};
use crate::error::{Error, Result};

/// The version of the schema below; a file of a newer one is not touched.
const FORMAT: i64 = 1;
/// How long a writer waits for another process.
const BUSY: Duration = Duration::from_secs(20);
/// The end of a token file's name.
const EXTENSION: &str = "jeton";

const SCHEMA: &str = "
    CREATE TABLE token(
        one INTEGER PRIMARY KEY CHECK (one = 1),
        serial TEXT NOT NULL,
        slot INTEGER NOT NULL,
        label BLOB NOT NULL,
        so_pin BLOB NOT NULL,
        so_failures INTEGER NOT NULL,
        user_pin BLOB NOT NULL,
        user_failures INTEGER NOT NULL,
        change INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE object(id INTEGER PRIMARY KEY, change INTEGER NOT NULL, record BLOB NOT NULL) STRICT;
    CREATE INDEX object_change ON object(change);
";

/// A token file.
pub struct SqliteStore {
    path: PathBuf,
    connection: Mutex<Connection>,
    /// SQLite's own count of what other connections wrote, as it was when last asked.
    seen_version: AtomicI64,
    /// The life of the token of which the caller knows.
    life: AtomicI64,
}

impl SqliteStore {
    /// The token files of a directory, sorted; none where it does not exist.
    pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(reason) => {
                error!(dir = %dir.display(), "token directory: {reason}");
                return Err(Error::DeviceError);
            }
        };
        let mut files: Vec<_> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
            .collect();
        files.sort();
        Ok(files)
    }

    /// Opens a token file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|reason| failed(path, "open", &reason))
    }

    /// Makes a token file, readable by its owner alone, with that header. A crash before the end leaves no token.
    pub fn create(dir: &Path, header: &Header) -> Result<Self> {
        let path = dir.join(&header.serial).with_extension(EXTENSION);
        let fail = |reason: &dyn std::fmt::Display| failed_io(&path, reason);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|reason| fail(&reason))?;
        // SQLite would make it readable by all; the journal files take the mode of the file.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|reason| fail(&reason))?;
        let store = Self::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|reason| failed(&path, "create", &reason))?;
        store.initialize(header)?;
        sync_dir(dir).map_err(|reason| fail(&reason))?;
        Ok(store)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Self> {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "secure_delete", "ON")?;
        connection.set_prepared_statement_cache_capacity(32);
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            seen_version: AtomicI64::new(0),
            life: AtomicI64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does all of `work` in one transaction, or nothing of it.
    fn write<T>(&self, what: &str, work: impl FnOnce(&Transaction<'_>) -> Outcome<T>) -> Result<T> {
        let mut connection = self.lock();
        let attempt = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        let outcome: Outcome<T> = attempt();
        outcome.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sqlite(reason) => failed(&self.path, what, &reason),
        })
    }

    /// Refuses to write into a token that was initialised anew since its state was asked for.
    fn same_life(&self, transaction: &Transaction<'_>) -> Outcome<()> {
        let same = change(transaction)?.life() == self.life.load(Ordering::Relaxed);
        if same { Ok(()) } else { Err(Fault::Refused(Error::DeviceRemoved)) }
    }

    fn read<T>(&self, what: &str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.lock()).map_err(|reason| failed(&self.path, what, &reason))
    }
}

impl Store for SqliteStore {
    fn header(&self) -> Result<Header> {
        let header = self.read("header", |connection| {
            let known: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if known != FORMAT {
                return Ok(Err(known));
            }
            let mut statement = connection.prepare_cached(
                "SELECT serial, slot, label, so_pin, so_failures, user_pin, user_failures FROM token",
            )?;
            statement.query_row([], header_row).optional().map(Ok)
        })?;
        match header {
            Ok(Some(header)) => Ok(header),
            Ok(None) => {
                error!(file = %self.path.display(), "no token in this file");
                Err(Error::TokenNotRecognized)
            }
            Err(format) => {
                error!(file = %self.path.display(), format, "unknown format of a token file");
                Err(Error::TokenNotRecognized)
            }
        }
    }

    fn initialize(&self, header: &Header) -> Result<()> {
        self.write("initialise", |transaction| {
            let format: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if format == 0 {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "user_version", FORMAT)?;
            }
            transaction.execute("DELETE FROM object", [])?;
            transaction.execute(
                "INSERT INTO token VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, 1)
                 ON CONFLICT DO UPDATE SET label = ?3, so_pin = ?4, so_failures = ?5, user_pin = ?6,
                 user_failures = ?7, change = (change / ?8 + 1) * ?8",
                params![
                    header.serial,
                    i64::try_from(header.slot).unwrap_or(i64::MAX),
                    header.label,
                    header.so.record,
                    header.so.failures,
                    header.user.record,
                    header.user.failures,
                    Change::LIFE
                ],
            )?;
            Ok(())
        })
    }

    fn set_pin(&self, role: Role, record: &[u8]) -> Result<()> {
        let sql = match role {
            Role::Officer => "UPDATE token SET so_pin = ?1, so_failures = 0",
            Role::User => "UPDATE token SET user_pin = ?1, user_failures = 0",
        };
        self.write("set a PIN", |transaction| {
            self.same_life(transaction)?;
            Ok(transaction.execute(sql, [record]).map(drop)?)
        })
    }

    fn attempt(&self, role: Role, limit: u32) -> Result<()> {
        let sql = match role {
            Role::Officer => "UPDATE token SET so_failures = so_failures + 1 WHERE so_failures < ?1",
            Role::User => "UPDATE token SET user_failures = user_failures + 1 WHERE user_failures < ?1",
        };
        self.write("count a PIN", |transaction| match transaction.execute(sql, [limit])? {
            0 => Err(Fault::Refused(Error::PinLocked)),
            _ => Ok(()),
        })
    }

    fn forgive(&self, role: Role) -> Result<()> {
        let sql = match role {
            Role::Officer => "UPDATE token SET so_failures = 0",
            Role::User => "UPDATE token SET user_failures = 0",
        };
        self.write("forgive a PIN", |transaction| Ok(transaction.execute(sql, []).map(drop)?))
    }

    fn load(&self) -> Result<(Vec<Stored>, Change)> {
        let mut connection = self.lock();
        let mut load = || {
            let transaction = connection.transaction()?;
            self.seen_version.store(version(&transaction)?, Ordering::Relaxed);
            let records = records(&transaction, Change(0))?;
            let now = change(&transaction)?;
            self.life.store(now.life(), Ordering::Relaxed);
            Ok((records, now))
        };
        let loaded: rusqlite::Result<_> = load();
        loaded.map_err(|reason| failed(&self.path, "load", &reason))
    }

    fn commit(&self, writes: &[Write<'_>]) -> Result<()> {
        self.write("commit", |transaction| {
            self.same_life(transaction)?;
            transaction.prepare_cached("UPDATE token SET change = change + 1")?.execute([])?;
            let now = change(transaction)?.0;
            for write in writes {
                let touched = match write {
                    Write::Insert(id, record) => transaction
                        .prepare_cached("INSERT INTO object VALUES(?1, ?2, ?3)")?
                        .execute(params![id, now, record])?,
                    Write::Replace(id, record) => transaction
                        .prepare_cached("UPDATE object SET change = ?2, record = ?3 WHERE id = ?1")?
                        .execute(params![id, now, record])?,
                    Write::Delete(id) => {
                        transaction.prepare_cached("DELETE FROM object WHERE id = ?1")?.execute([id])?
                    }
                };
                if touched == 0 {
                    return Err(Fault::Refused(Error::ObjectHandleInvalid));
                }
            }
            Ok(())
        })
    }

    fn changed_since(&self, seen: Change) -> Result<Option<Delta>> {
        let mut connection = self.lock();
        let mut look = || {
            let transaction = connection.transaction()?;
            let version = version(&transaction)?;
            if version == self.seen_version.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let mut ids = transaction.prepare_cached("SELECT id FROM object ORDER BY id")?;
            let present = ids.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            let delta = Delta { present, written: records(&transaction, seen)?, now: change(&transaction)? };
            self.seen_version.store(version, Ordering::Relaxed);
            self.life.store(delta.now.life(), Ordering::Relaxed);
            Ok(Some(delta))
        };
        let delta: rusqlite::Result<_> = look();
        delta.map_err(|reason| failed(&self.path, "look for changes", &reason))
    }
}

/// Why a transaction was given up.
enum Fault {
    Refused(Error),
    Sqlite(rusqlite::Error),
}

type Outcome<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(reason: rusqlite::Error) -> Self {
        Self::Sqlite(reason)
    }
}

fn header_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Header> {
    Ok(Header {
        serial: row.get(0)?,
        slot: row.get::<_, i64>(1)?.unsigned_abs(),
        label: row.get(2)?,
        so: PinState { record: row.get(3)?, failures: row.get(4)? },
        user: PinState { record: row.get(5)?, failures: row.get(6)? },
    })
}

/// The records written after `seen`.
fn records(connection: &Connection, seen: Change) -> rusqlite::Result<Vec<Stored>> {
    let mut statement =
        connection.prepare_cached("SELECT id, record FROM object WHERE change > ?1 ORDER BY change, id")?;
    let rows = statement.query_map([seen.0], |row| Ok(Stored { id: row.get(0)?, record: row.get(1)? }))?;
    rows.collect()
}

fn change(connection: &Connection) -> rusqlite::Result<Change> {
    connection.prepare_cached("SELECT change FROM token")?.query_row([], |row| row.get(0)).map(Change)
}

/// SQLite's `data_version`: it differs from its last value where another connection committed in between.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// A new file's name is on disk once its directory is.
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

fn failed(path: &Path, what: &str, reason: &rusqlite::Error) -> Error {
    error!(file = %path.display(), "store, {what}: {reason}");
    match reason.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::DeviceMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::TokenWriteProtected,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::TokenNotRecognized,
        Some(ErrorCode::OutOfMemory) => Error::HostMemory,
        _ => Error::DeviceError,
    }
}

fn failed_io(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    error!(file = %path.display(), "store, create: {reason}");
    Error::DeviceError
}
