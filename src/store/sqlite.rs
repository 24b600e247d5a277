//! The store in an SQLite file: write-ahead log, synced before a commit is acknowledged, shared by processes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, ToSql, Transaction, TransactionBehavior, params,
};
use tracing::error;

use super::probe::Probe;
use super::trial::Trial;
use super::{Change, Committed, Header, PinState, Role, Row, Snapshot, Store, Summarise, Write};
use crate::error::{Error, Result};

/// The version of the schema below; a file of a newer one is not touched.
const FORMAT: i64 = 2;
/// How long a writer waits for another process.
const BUSY: Duration = Duration::from_secs(20);
/// The end of a token file's name.
const EXTENSION: &str = "jeton";
/// The end of its journal's name.
const JOURNAL: &str = "jeton-wal";

/// The end of its name while it is made.
const FRESH: &str = "new";

/// By which a change of a token file shows.
pub type Stamp = [Option<(u64, SystemTime)>; 2];

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
        change INTEGER NOT NULL,
        summary BLOB NOT NULL
    ) STRICT;
    CREATE TABLE object(
        id INTEGER PRIMARY KEY,
        private INTEGER NOT NULL,
        tag BLOB NOT NULL,
        names BLOB NOT NULL
    ) STRICT;
    CREATE TABLE record(id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
";

/// A token file.
pub struct SqliteStore {
    path: PathBuf,
    writer: Mutex<Connection>,
    /// Reads do not wait for a writer's sync.
    reader: Mutex<Connection>,
    // Dropped after the connections: closing any handle of the file lets go of their locks.
    probe: Probe,
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

    /// When a token file and its journal were written last, and how long they are.
    pub fn stamp(path: &Path) -> Stamp {
        let of = |path: &Path| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        [of(path), of(&path.with_extension(JOURNAL))]
    }

    /// Opens a token file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::connect(path).map_err(|reason| failed(path, "open", &reason))
    }

    /// Makes a token file, readable by its owner alone, with that header. It has another name until it is whole: nobody
    /// sees the half of it, and a crash before the end leaves no token.
    pub fn create(dir: &Path, header: &Header) -> Result<Self> {
        let path = dir.join(&header.serial).with_extension(EXTENSION);
        let fresh = path.with_extension(FRESH);
        let fail = |reason: &dyn std::fmt::Display| failed_io(&path, "create", reason);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|reason| fail(&reason))?;
        // SQLite would make it readable by all; the journal files take the mode of the file.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(|reason| fail(&reason))?;
        let named = begin(&fresh, header)
            .map_err(|reason| failed(&path, "create", &reason))
            .and_then(|()| std::fs::rename(&fresh, &path).map_err(|reason| fail(&reason)));
        if let Err(error) = named {
            // It is of no use to anybody, and does no harm where it stays.
            let _ = std::fs::remove_file(&fresh);
            return Err(error);
        }
        sync_dir(dir).map_err(|reason| fail(&reason))?;
        Self::open(&path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path) -> rusqlite::Result<Self> {
        let writer = connection(path)?;
        let reader = connection(path)?;
        // The index file is there once somebody read.
        let _: i64 = reader.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(Self {
            path: path.to_owned(),
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            probe: Probe::beside(path),
        })
    }

    /// Does all of `work` in one transaction, or nothing of it.
    fn write<T>(&self, what: &str, work: impl FnOnce(&Transaction<'_>) -> Outcome<T>) -> Result<T> {
        let mut connection = lock(&self.writer);
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

    fn read<T>(&self, what: &str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&lock(&self.reader)).map_err(|reason| failed(&self.path, what, &reason))
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
                "SELECT serial, slot, label, so_pin, so_failures, user_pin, user_failures, change FROM token",
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
        self.write("initialise", |transaction| Ok(start_anew(transaction, header)?))
    }

    fn set_pin(
        &self,
        role: Role,
        old: Option<&[u8]>,
        record: &[u8],
        summarise: &dyn Fn(&Snapshot) -> Result<Vec<u8>>,
    ) -> Result<Option<Change>> {
        let sql = match role {
            Role::Officer => {
                "UPDATE token SET so_pin = ?1, so_failures = 0 WHERE so_pin = coalesce(?2, so_pin)"
            }
            Role::User => {
                "UPDATE token SET user_pin = ?1, user_failures = 0 WHERE user_pin = coalesce(?2, user_pin)"
            }
        };
        self.write("set a PIN", |transaction| {
            let before = snapshot(transaction)?;
            if transaction.execute(sql, params![record, old])? == 0 {
                return Ok(None);
            }
            let summary = summarise(&before).map_err(Fault::Refused)?;
            conclude(transaction, &before, &summary)?;
            Ok(Some(before.change))
        })
    }

    fn trial(&self, alone: bool) -> Result<Trial> {
        Trial::beside(&self.path, alone).map_err(|reason| failed_io(&self.path, "try a PIN", &reason))
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

    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot> {
        // Before the rows are read: what is committed in between is looked at again.
        let header = self.probe.look();
        let mut connection = lock(&self.reader);
        let mut load = || {
            let transaction = connection.transaction()?;
            let mut rows =
                transaction.prepare_cached("SELECT id, private, tag, names FROM object ORDER BY id")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                each(Row { id: row.get(0)?, private: row.get(1)?, tag: row.get(2)?, names: names(row)? });
            }
            snapshot(&transaction)
        };
        let loaded: rusqlite::Result<_> = load();
        let loaded = loaded.map_err(|reason| failed(&self.path, "load", &reason))?;
        self.probe.remember(header);
        Ok(loaded)
    }

    fn record(&self, id: i64) -> Result<Option<Vec<u8>>> {
        self.read("record", |connection| {
            let mut statement = connection.prepare_cached("SELECT body FROM record WHERE id = ?1")?;
            statement.query_row([id], |row| row.get(0)).optional()
        })
    }

    fn commit(&self, writes: &[Write<'_>], summarise: &Summarise<'_>) -> Result<Committed> {
        self.write("commit", |transaction| {
            let before = snapshot(transaction)?;
            let applied: Vec<_> =
                writes.iter().map(|write| apply(transaction, write)).collect::<rusqlite::Result<_>>()?;
            let summary = summarise(&before, &applied).map_err(Fault::Refused)?;
            conclude(transaction, &before, &summary)?;
            Ok(Committed { before: before.change, applied })
        })
    }

    fn changed_since(&self, seen: Change) -> Result<bool> {
        let header = self.probe.look();
        if self.probe.remembers(header) {
            return Ok(false);
        }
        let changed = self.read("look for changes", |connection| Ok(change(connection)? != seen))?;
        if !changed {
            self.probe.remember(header);
        }
        Ok(changed)
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Makes a token file's content. The write-ahead log, which would have the name that the file has now, is turned on when
/// all is written: were it left to those who open the file first, they would be in each other's way.
fn begin(path: &Path, header: &Header) -> rusqlite::Result<()> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    start_anew(&transaction, header)?;
    transaction.commit()?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, reason)| reason)
}

/// This header, and no objects.
fn start_anew(transaction: &Transaction<'_>, header: &Header) -> rusqlite::Result<()> {
    transaction.execute_batch("DELETE FROM object; DELETE FROM record")?;
    transaction.execute(
        "INSERT INTO token VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO UPDATE SET label = ?3, so_pin = ?4, so_failures = ?5, user_pin = ?6,
         user_failures = ?7, change = ?8, summary = ?9",
        params![
            header.serial,
            i64::try_from(header.slot).unwrap_or(i64::MAX),
            header.label,
            header.so.record,
            header.so.failures,
            header.user.record,
            header.user.failures,
            header.change.0,
            header.summary,
        ],
    )?;
    Ok(())
}

/// Does a write; whether the row was as it expects.
fn apply(transaction: &Transaction<'_>, write: &Write<'_>) -> rusqlite::Result<bool> {
    let run = |sql: &str, values: &[&dyn ToSql]| transaction.prepare_cached(sql)?.execute(values);
    let touched = match write {
        Write::Insert(row, body) => {
            run(
                "INSERT INTO object VALUES(?1, ?2, ?3, ?4)",
                params![row.id, row.private, row.tag, bytes(&row.names)],
            )?;
            run("INSERT INTO record VALUES(?1, ?2)", params![row.id, body])?
        }
        Write::Replace(old, row, body) => {
            let sql = "UPDATE object SET private = ?2, tag = ?3, names = ?4 WHERE id = ?1 AND tag = ?5";
            match run(sql, params![row.id, row.private, row.tag, bytes(&row.names), old])? {
                0 => 0,
                _ => run("UPDATE record SET body = ?2 WHERE id = ?1", params![row.id, body])?,
            }
        }
        Write::Delete(id, old) => {
            match run("DELETE FROM object WHERE id = ?1 AND tag = ?2", params![id, old])? {
                0 => 0,
                _ => run("DELETE FROM record WHERE id = ?1", params![id])?,
            }
        }
    };
    Ok(touched != 0)
}

/// Names as they are stored: 8 bytes each, the lowest first.
fn bytes(names: &[u64]) -> Vec<u8> {
    names.iter().flat_map(|name| name.to_le_bytes()).collect()
}

fn names(row: &rusqlite::Row<'_>) -> rusqlite::Result<super::index::Names> {
    let bytes = row.get_ref(3)?.as_blob()?;
    // A rest too short for a name says nothing.
    Ok(bytes.as_chunks().0.iter().map(|name| u64::from_le_bytes(*name)).collect())
}

fn snapshot(transaction: &Transaction<'_>) -> rusqlite::Result<Snapshot> {
    let mut statement = transaction.prepare_cached("SELECT change, summary FROM token")?;
    statement.query_row([], |row| Ok(Snapshot { change: Change(row.get(0)?), summary: row.get(1)? }))
}

/// The state after: the next one, with its summary.
fn conclude(transaction: &Transaction<'_>, before: &Snapshot, summary: &[u8]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("UPDATE token SET change = ?1, summary = ?2")?;
    statement.execute(params![before.change.next().0, summary]).map(drop)
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
        change: Change(row.get(7)?),
        summary: Vec::new(),
    })
}

fn change(connection: &Connection) -> rusqlite::Result<Change> {
    connection.prepare_cached("SELECT change FROM token")?.query_row([], |row| row.get(0)).map(Change)
}

/// A new file's name is on disk once its directory is.
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
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

fn failed_io(path: &Path, what: &str, reason: &dyn std::fmt::Display) -> Error {
    error!(file = %path.display(), "store, {what}: {reason}");
    Error::DeviceError
}
