//! The store in an SQLite file. It has a write-ahead log, syncs before it acknowledges a commit,
//! and several processes share it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{
    Connection, ErrorCode, MAIN_DB, OpenFlags, OptionalExtension, ToSql, Transaction, TransactionBehavior,
    params,
};
use tracing::{error, warn};

use super::attempt_lock::AttemptLock;
use super::place::{self, Exposure, FileId, Place, Stamp};
use super::probe::Probe;
use super::reserve;
use super::schema;
use super::still::{Still, is_out_of_room};
use super::{Change, Committed, Header, PinState, Rewriter, Role, Row, Snapshot, Store, Summarise, Write};
use crate::error::{Error, Result};
use crate::file_lock::{self, Mode};

/// The format version of the file. A file of a newer version is not touched. Since version 3, no
/// record has a secret attribute in clear, and a PIN record may need a sealing key.
const FORMAT: i64 = 3;
/// The oldest version that is read. The next login upgrades such a file to the newest version.
const OLDEST: i64 = 2;
/// How long the removal of old bytes waits for readers of the file. It is tried again later.
const SCRUB_WAIT: Duration = Duration::from_millis(500);
/// The shortest time until the removal is tried again.
const SCRUB_PAUSE: Duration = Duration::from_secs(1);
/// The number of records that are read together when all are rewritten.
const BATCH: usize = 256;
/// How long a writer waits for another process.
const BUSY: Duration = file_lock::LIMIT;
/// The extension of a token file.
const EXTENSION: &str = "jeton";
/// The extension of its write-ahead log.
const JOURNAL: &str = "jeton-wal";
/// The extension of a rollback journal, which token files never have.
const ROLLBACK: &str = "jeton-journal";

/// The extension of a token file while it is created.
const FRESH: &str = "new";

/// The value for an unknown version.
const UNKNOWN: i64 = i64::MIN;
/// The shortest pause between two loads that only look for altered rows, as a multiple of the
/// duration of a load.
const SHARE: u32 = 16;

pub(super) const SCHEMA: &str = "
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

/// The store of one token in an SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    writer: Mutex<Connection>,
    /// A second connection, so that reads do not wait for a writer's sync.
    reader: Mutex<Connection>,
    // Dropped after the connections: closing any handle of a file releases their locks.
    probe: Probe,
    /// The state of a file that is open read-only. Locked after the connections.
    still: Mutex<Option<Still>>,
    /// Whether the writer's connection is read-only.
    only_read: AtomicBool,
    file: FileId,
    /// The names and identities of the open files.
    place: Mutex<Place>,
    /// The schema version that the last write found to be ours.
    schema: AtomicI64,
    /// The data version of the writer's connection. Every commit of another connection changes it.
    data_version: AtomicI64,
    /// Whether another connection committed since the rows were last loaded.
    others_wrote: AtomicBool,
    /// When the rows were last loaded, and how long that took.
    loaded: Mutex<Option<(Instant, Duration)>>,
    /// When the removal of old bytes is tried again; `None` if there are none.
    scrub_due: Mutex<Option<Instant>>,
}

/// The open connections of a token file.
struct Connections {
    writer: Connection,
    reader: Connection,
    still: Option<Still>,
}

impl Connections {
    fn is_only_read(&self) -> bool {
        self.writer.is_readonly(MAIN_DB).unwrap_or(true)
    }
}

impl SqliteStore {
    /// Checks the permissions of a token directory. Fails with `DeviceError` if every user may
    /// replace files in it.
    pub(crate) fn check_directory(dir: &Path) -> Result<()> {
        let Ok(data) = std::fs::metadata(dir) else { return Ok(()) };
        match place::exposure(&data) {
            Some(Exposure::Everybody) => {
                error!(
                    dir = %dir.display(),
                    "token directory refused: every user may replace its files; chmod o-w or chmod +t"
                );
                Err(Error::DeviceError)
            }
            Some(Exposure::Some(what)) => {
                warn!(dir = %dir.display(), "token directory: {what}");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the token files of a directory, sorted; an empty list if the directory does not
    /// exist. Files that are named after a serial number come first. So a copy under another name
    /// does not replace its original.
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
        files.sort_by_cached_key(|path| (!has_name_of_serial(path), path.clone()));
        Ok(files)
    }

    /// Returns the stamp of a token file; `None` if the file does not exist.
    pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
        Stamp::of(path, &path.with_extension(JOURNAL))
    }

    /// Opens a token file. Opens it read-only if the disk is full or read-only.
    pub fn open(path: &Path) -> Result<Self> {
        let look = || -> std::io::Result<()> {
            place::check_file(&std::fs::metadata(path)?)?;
            // SQLite would use this journal. It would roll the token back, and remove the file that
            // the journal names.
            let journal = path.with_extension(ROLLBACK);
            if std::fs::symlink_metadata(&journal).is_ok() {
                let name = journal.file_name().unwrap_or_default();
                return Err(std::io::Error::other(format!("{name:?} does not belong beside a token file")));
            }
            Ok(())
        };
        if let Err(reason) = look() {
            log_io_failure(path, "open", &reason);
            return Err(Error::TokenNotRecognized);
        }
        // A process that was killed may have left old bytes in the write-ahead log.
        let log = std::fs::metadata(path.with_extension(JOURNAL)).is_ok_and(|log| log.len() != 0);
        let opened = match connect(path) {
            Err(reason) if is_out_of_room(&reason) => {
                // If this fails, the file can still be opened read-only.
                let _ = reserve::give_back(path);
                connect(path)
            }
            opened => opened,
        }
        .or_else(|reason| Self::only_read(path, reason))
        .map_err(|reason| log_failure(path, "open", &reason))?;
        let place = Place::of(path).map_err(|reason| log_io_failure(path, "open", &reason))?;
        let only_read = AtomicBool::new(opened.is_only_read());
        let Connections { writer, reader, still } = opened;
        let store = Self {
            path: path.to_owned(),
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            probe: Probe::beside(path),
            still: Mutex::new(still),
            only_read,
            file: place.id(),
            place: Mutex::new(place),
            schema: AtomicI64::new(UNKNOWN),
            data_version: AtomicI64::new(UNKNOWN),
            others_wrote: AtomicBool::new(false),
            loaded: Mutex::default(),
            scrub_due: Mutex::new(log.then(Instant::now)),
        };
        store.take_reserve();
        Ok(store)
    }

    /// Asks SQLite for every change number from now on, and never reads the `-shm` file itself.
    pub fn without_probe(self) -> Self {
        Self { probe: Probe::off(), ..self }
    }

    /// Opens the file read-only if it could not be opened for this reason.
    fn only_read(path: &Path, reason: rusqlite::Error) -> rusqlite::Result<Connections> {
        let Some((writer, still)) = Still::open(path, &reason) else { return Err(reason) };
        let Some((reader, _)) = Still::open(path, &reason) else { return Err(reason) };
        warn!(file = %path.display(), "the token is read-only: {reason}");
        Ok(Connections { writer, reader, still: Some(still) })
    }

    /// Reserves disk space for the time when the disk is full. A token without a reserve works too.
    fn take_reserve(&self) {
        if !self.is_write_protected()
            && let Err(reason) = reserve::take(&self.path)
        {
            warn!(file = %self.path.display(), "no disk space is reserved for a full disk: {reason}");
        }
    }

    /// Creates a token file with this header. Only its owner may read it. The file has another name
    /// until it is complete. So no process sees a partial file, and a crash leaves no token.
    pub(crate) fn create(dir: &Path, header: &Header) -> Result<Self> {
        let path = dir.join(&header.serial).with_extension(EXTENSION);
        let fresh = path.with_extension(FRESH);
        let fail = |reason: &std::io::Error| log_io_failure(&path, "create", reason);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|reason| fail(&reason))?;
        // SQLite would create a file that every user can read. Its journal files take the mode of
        // this file.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(|reason| fail(&reason))?;
        let named = begin(&fresh, header)
            .map_err(|reason| log_failure(&path, "create", &reason))
            .and_then(|()| std::fs::rename(&fresh, &path).map_err(|reason| fail(&reason)));
        if let Err(error) = named {
            // The partial file is useless, and harmless if it cannot be removed. The same holds for
            // SQLite's files beside it.
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let mut name = fresh.as_os_str().to_owned();
                name.push(suffix);
                let _ = std::fs::remove_file(name);
            }
            return Err(error);
        }
        sync_dir(dir).map_err(|reason| fail(&reason))?;
        Self::open(&path)
    }

    /// Returns the identity of the token file.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file again if it was read-only. Fails with the reason if it is still read-only.
    fn expect_writable(&self) -> Result<()> {
        if !self.is_write_protected() {
            return Ok(());
        }
        self.reopen()?;
        if !self.is_write_protected() {
            return Ok(());
        }
        Err(self.still().as_ref().map_or(Error::TokenWriteProtected, |still| still.reason))
    }

    /// Opens the file again, writable if possible.
    fn reopen(&self) -> Result<()> {
        let (mut writer, mut reader) = (lock(&self.writer), lock(&self.reader));
        // The old connections are closed first: read-only descriptors cannot take the locks of a
        // writer (`locks.rs`).
        let nothing =
            || Connection::open_in_memory().map_err(|reason| log_failure(&self.path, "reopen", &reason));
        (*writer, *reader) = (nothing()?, nothing()?);
        let opened = connect(&self.path).or_else(|reason| Self::only_read(&self.path, reason));
        match opened {
            Ok(opened) => {
                self.only_read.store(opened.is_only_read(), Ordering::Release);
                (*writer, *reader) = (opened.writer, opened.reader);
                *self.still() = opened.still;
                // SQLite has created new files beside the token.
                let place = Place::of(&self.path);
                *self.place() = place.map_err(|reason| log_io_failure(&self.path, "reopen", &reason))?;
                self.schema.store(UNKNOWN, Ordering::Release);
                self.data_version.store(UNKNOWN, Ordering::Release);
                self.others_wrote.store(true, Ordering::Release);
                Ok(())
            }
            Err(reason) => {
                let error = log_failure(&self.path, "reopen", &reason);
                // The next read tries to open it again.
                *self.still() = Some(Still::without_file(error));
                Err(error)
            }
        }
    }

    fn still(&self) -> MutexGuard<'_, Option<Still>> {
        self.still.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `write`. If the disk is full, runs it again with the space of the write-ahead log and
    /// of the reserve. Takes the reserve again afterwards.
    fn write_with_reserve<T>(&self, what: &str, work: impl Fn(&Transaction<'_>) -> Outcome<T>) -> Result<T> {
        match self.write(what, &work) {
            Err(Error::DeviceMemory) => {}
            outcome => return outcome,
        }
        self.shrink_log();
        if let Err(reason) = reserve::give_back(&self.path) {
            warn!(file = %self.path.display(), "the disk is full and no space was reserved: {reason}");
        }
        let outcome = self.write(what, &work);
        self.shrink_log();
        self.take_reserve();
        outcome
    }

    /// Copies the write-ahead log into the main file and truncates it, unless a reader needs it.
    fn shrink_log(&self) {
        let connection = lock(&self.writer);
        let outcome = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
            .and(connection.busy_timeout(BUSY));
        if let Err(reason) = outcome {
            warn!(file = %self.path.display(), "the write-ahead log cannot be truncated: {reason}");
        }
    }

    /// Checks that the schema is still ours, before a transaction changes anything. Also notes
    /// whether another connection wrote.
    fn check_schema(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let version = schema::version(transaction)?;
        if version != self.schema.load(Ordering::Acquire) {
            schema::verify(transaction, SCHEMA)?;
            self.schema.store(version, Ordering::Release);
        }
        self.note_others(transaction)
    }

    /// Notes whether another connection committed since the writer's connection was last used.
    fn note_others(&self, writer: &Connection) -> rusqlite::Result<()> {
        let version = data_version(writer)?;
        let known = self.data_version.swap(version, Ordering::AcqRel);
        if known != version && known != UNKNOWN {
            self.others_wrote.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns whether another connection committed since the rows were loaded, and it is time to
    /// look at the rows. The looks take a small part of the time, also in large tokens.
    fn is_look_due(&self) -> bool {
        // Otherwise the thread that holds the writer's connection notes it.
        if let Ok(writer) = self.writer.try_lock()
            && self.note_others(&writer).is_err()
        {
            return false;
        }
        let last = *self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = last.is_none_or(|(end, took)| end.elapsed() >= SHARE * took);
        self.others_wrote.load(Ordering::Acquire) && rested
    }

    /// Runs `work` in one transaction. Changes nothing if it fails.
    fn write<T>(&self, what: &str, work: impl FnOnce(&Transaction<'_>) -> Outcome<T>) -> Result<T> {
        self.expect_writable()?;
        let mut connection = lock(&self.writer);
        let attempt = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            self.check_schema(&transaction)?;
            let done = work(&transaction)?;
            self.place().verify().map_err(|reason| {
                error!(file = %self.path.display(), "store, {what}: nothing is written: {reason}");
                Fault::Refused(Error::DeviceRemoved)
            })?;
            transaction.commit()?;
            Ok(done)
        };
        let outcome: Outcome<T> = attempt();
        outcome.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sqlite(reason) => log_failure(&self.path, what, &reason),
        })
    }

    /// Removes the bytes that commits have replaced, from the main file and from the write-ahead
    /// log. SQLite zeroes them in the pages that it writes (`secure_delete`). But those pages are
    /// at first only in the log, after older copies of themselves. So the log is copied into the
    /// main file and truncated.
    ///
    /// A reader of an older state, in any process, prevents this. Then the log says so, and the
    /// next write or login tries again. The commit itself is valid.
    fn scrub(&self, wait: Duration) {
        let connection = lock(&self.writer);
        // Our own reader would prevent it too.
        let reader = lock(&self.reader);
        let attempt = || {
            connection.busy_timeout(wait)?;
            let busy: rusqlite::Result<i64> =
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            connection.busy_timeout(BUSY)?;
            busy
        };
        let outcome = attempt();
        drop(reader);
        let due = match outcome {
            Ok(0) => None,
            Ok(_) => Some("another process is reading it".to_owned()),
            Err(reason) => Some(reason.to_string()),
        };
        *self.scrub_due.lock().unwrap_or_else(PoisonError::into_inner) =
            due.as_ref().map(|_| Instant::now() + SCRUB_PAUSE);
        if let Some(reason) = due.filter(|_| !wait.is_zero()) {
            warn!(
                file = %self.path.display(),
                "old bytes stay in the file until a later write or login: {reason}"
            );
        }
    }

    /// Tries a removal again that a reader prevented. Does not wait for readers.
    fn scrub_if_due(&self) {
        let due = *self.scrub_due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.is_some_and(|due| due <= Instant::now()) {
            self.scrub(Duration::ZERO);
        }
    }

    fn read<T>(&self, what: &str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let connection = self.current_reader()?;
        let done = work(&connection).map_err(|reason| log_failure(&self.path, what, &reason))?;
        self.expect_still(what).map(|()| done)
    }

    /// Returns the connection for reads. Opens a read-only file again if it was changed.
    fn current_reader(&self) -> Result<MutexGuard<'_, Connection>> {
        let is_stale = self.still().as_ref().is_some_and(|still| !still.is_current(&self.path));
        if is_stale {
            self.reopen()?;
        }
        Ok(lock(&self.reader))
    }

    /// Fails if a read-only file was changed while it was read.
    fn expect_still(&self, what: &str) -> Result<()> {
        match &*self.still() {
            Some(still) if !still.is_current(&self.path) => {
                error!(file = %self.path.display(), "store, {what}: the file changed while it was read");
                Err(Error::DeviceError)
            }
            _ => Ok(()),
        }
    }
}

impl Store for SqliteStore {
    fn header(&self) -> Result<Header> {
        let header = self.read("header", |connection| {
            let known: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if !(OLDEST..=FORMAT).contains(&known) {
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
                error!(file = %self.path.display(), "this file has no token");
                Err(Error::TokenNotRecognized)
            }
            Err(format) => {
                error!(file = %self.path.display(), format, "unknown format of the token file");
                Err(Error::TokenNotRecognized)
            }
        }
    }

    fn initialize(&self, header: &Header) -> Result<()> {
        self.write("initialise", |transaction| Ok(replace_content(transaction, header)?))?;
        self.scrub(SCRUB_WAIT);
        Ok(())
    }

    fn set_pin(
        &self,
        role: Role,
        old: Option<&[u8]>,
        record: &[u8],
        summarise: &dyn Fn(&Snapshot) -> Result<Vec<u8>>,
    ) -> Result<Option<Change>> {
        let sql = match role {
            Role::SecurityOfficer => {
                "UPDATE token SET so_pin = ?1, so_failures = 0 WHERE so_pin = coalesce(?2, so_pin)"
            }
            Role::User => {
                "UPDATE token SET user_pin = ?1, user_failures = 0 WHERE user_pin = coalesce(?2, user_pin)"
            }
        };
        let done = self.write_with_reserve("set a PIN", |transaction| {
            let before = snapshot(transaction)?;
            if transaction.execute(sql, params![record, old])? == 0 {
                return Ok(None);
            }
            let summary = summarise(&before).map_err(Fault::Refused)?;
            conclude(transaction, &before, &summary)?;
            Ok(Some(before.change))
        })?;
        // The old bytes contain the old PIN record, which the old PIN still opens. It has the same
        // token key.
        self.scrub(SCRUB_WAIT);
        Ok(done)
    }

    fn lock_attempt(&self, mode: Mode) -> Result<AttemptLock> {
        AttemptLock::beside(&self.path, mode)
            .map_err(|reason| log_io_failure(&self.path, "try a PIN", &reason))
    }

    fn attempt(&self, role: Role, limit: u32) -> Result<()> {
        let sql = match role {
            Role::SecurityOfficer => "UPDATE token SET so_failures = so_failures + 1 WHERE so_failures < ?1",
            Role::User => "UPDATE token SET user_failures = user_failures + 1 WHERE user_failures < ?1",
        };
        self.write_with_reserve("count an attempt", |transaction| {
            match transaction.execute(sql, [limit])? {
                0 => Err(Fault::Refused(Error::PinLocked)),
                _ => Ok(()),
            }
        })
    }

    fn forgive(&self, role: Role) -> Result<()> {
        let sql = match role {
            Role::SecurityOfficer => "UPDATE token SET so_failures = 0",
            Role::User => "UPDATE token SET user_failures = 0",
        };
        self.write_with_reserve("reset the count of wrong PINs", |transaction| {
            Ok(transaction.execute(sql, []).map(drop)?)
        })
    }

    fn take_back(&self, role: Role, count: u32) -> Result<()> {
        let sql = match role {
            Role::SecurityOfficer => "UPDATE token SET so_failures = max(so_failures - ?1, 0)",
            Role::User => "UPDATE token SET user_failures = max(user_failures - ?1, 0)",
        };
        self.write_with_reserve("correct the count of wrong PINs", |transaction| {
            Ok(transaction.execute(sql, [count]).map(drop)?)
        })
    }

    fn is_write_protected(&self) -> bool {
        self.only_read.load(Ordering::Acquire)
    }

    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot> {
        // The header is read before the rows, so that a commit in between is noticed later.
        let (header, began) = (self.probe.read(), Instant::now());
        let mut connection = self.current_reader()?;
        // The flag is also reset before the rows are read.
        self.others_wrote.store(false, Ordering::Release);
        let mut load = || {
            let transaction = connection.transaction()?;
            let mut rows =
                transaction.prepare_cached("SELECT id, private, tag, names FROM object ORDER BY id")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                each(Row {
                    id: row.get(0)?,
                    private: row.get(1)?,
                    tag: row.get(2)?,
                    index_keys: index_keys(row)?,
                });
            }
            snapshot(&transaction)
        };
        let loaded: rusqlite::Result<_> = load();
        let loaded = loaded.map_err(|reason| log_failure(&self.path, "load", &reason))?;
        self.expect_still("load")?;
        self.probe.remember(header);
        let end = Instant::now();
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Some((end, end - began));
        Ok(loaded)
    }

    fn record(&self, id: i64) -> Result<Option<Vec<u8>>> {
        self.read("record", |connection| {
            let mut statement = connection.prepare_cached("SELECT body FROM record WHERE id = ?1")?;
            statement.query_row([id], |row| row.get(0)).optional()
        })
    }

    fn commit(&self, writes: &[Write<'_>], summarise: &Summarise<'_>) -> Result<Committed> {
        let work = |transaction: &Transaction<'_>| {
            let before = snapshot(transaction)?;
            let applied: Vec<_> =
                writes.iter().map(|write| apply(transaction, write)).collect::<rusqlite::Result<_>>()?;
            let summary = summarise(&before, &applied).map_err(Fault::Refused)?;
            conclude(transaction, &before, &summary)?;
            Ok(Committed { before: before.change, applied })
        };
        // Only a write that frees space may use the reserve.
        let committed = if writes.iter().all(|write| matches!(write, Write::Delete(..))) {
            self.write_with_reserve("commit", work)?
        } else {
            self.write("commit", work)?
        };
        if writes.iter().any(|write| matches!(write, Write::Delete(..))) {
            self.scrub(SCRUB_WAIT);
        } else {
            self.scrub_if_due();
        }
        Ok(committed)
    }

    fn tidy(&self) {
        if !self.is_write_protected() {
            self.scrub_if_due();
        }
    }

    fn is_outdated(&self) -> Result<bool> {
        self.read("format", |connection| {
            let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok(format < FORMAT)
        })
    }

    fn rewrite(&self, rewriter: &mut dyn Rewriter) -> Result<Change> {
        let before = self.write("rewrite", |transaction| {
            let before = snapshot(transaction)?;
            let mut last = i64::MIN;
            loop {
                let batch = records_after(transaction, last)?;
                let Some((row, _)) = batch.last() else { break };
                last = row.id;
                for (row, body) in batch {
                    let tag = row.tag;
                    if let Some((row, body)) = rewriter.record(row, &body).map_err(Fault::Refused)? {
                        apply(transaction, &Write::Replace(tag, &row, &body))?;
                    }
                }
            }
            let after = rewriter.finish(&before).map_err(Fault::Refused)?;
            if let Some(pins) = &after.pins {
                let sql = "UPDATE token SET so_pin = ?1, user_pin = ?2, so_failures = 0, user_failures = 0
                           WHERE so_pin = ?3 AND user_pin = ?4";
                let (so, user) = (&pins.so, &pins.user);
                if transaction.execute(sql, params![so.1, user.1, so.0, user.0])? == 0 {
                    // Another process has set another PIN in the meantime.
                    return Err(Fault::Refused(Error::PinIncorrect));
                }
            }
            let sql = "UPDATE token SET change = ?1, summary = ?2";
            transaction.execute(sql, params![after.change.0, after.summary])?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            Ok(before.change)
        })?;
        self.scrub(SCRUB_WAIT);
        Ok(before)
    }

    fn changed_since(&self, seen: Change) -> Result<bool> {
        let header = self.probe.read();
        if self.probe.remembers(header) {
            return Ok(false);
        }
        let changed = self.read("look for changes", |connection| Ok(change(connection)? != seen))?;
        if changed || self.is_look_due() {
            return Ok(true);
        }
        if !self.others_wrote.load(Ordering::Acquire) {
            self.probe.remember(header);
        }
        Ok(false)
    }

    fn suspicious_since(&self, seen: Change) -> Result<bool> {
        if self.probe.remembers(self.probe.read()) {
            return Ok(false);
        }
        let same = self.read("look for changes", |connection| Ok(change(connection)? == seen))?;
        Ok(same && self.is_look_due())
    }
}

/// Returns whether a file is named after a serial number, as new token files are.
fn has_name_of_serial(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a number that changes whenever another connection commits.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path) -> rusqlite::Result<Connections> {
    let writer = connection(path)?;
    let reader = connection(path)?;
    // The first read creates the index file.
    schema::verify(&reader, SCHEMA)?;
    Ok(Connections { writer, reader, still: None })
}

fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    schema::harden(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Writes the content of a new token file. The write-ahead log would be named after the file's
/// temporary name, so it is enabled after everything is written. If the first processes that open
/// the file enabled it, they would block each other.
fn begin(path: &Path, header: &Header) -> rusqlite::Result<()> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    replace_content(&transaction, header)?;
    transaction.commit()?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, reason)| reason)
}

/// Replaces the content by this header and no objects.
fn replace_content(transaction: &Transaction<'_>, header: &Header) -> rusqlite::Result<()> {
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

/// Runs a write. Returns whether the row was the expected one.
fn apply(transaction: &Transaction<'_>, write: &Write<'_>) -> rusqlite::Result<bool> {
    let run = |sql: &str, values: &[&dyn ToSql]| transaction.prepare_cached(sql)?.execute(values);
    let touched = match write {
        Write::Insert(row, body) => {
            run(
                "INSERT INTO object VALUES(?1, ?2, ?3, ?4)",
                params![row.id, row.private, row.tag, bytes(&row.index_keys)],
            )?;
            run("INSERT INTO record VALUES(?1, ?2)", params![row.id, body])?
        }
        Write::Replace(old, row, body) => {
            let sql = "UPDATE object SET private = ?2, tag = ?3, names = ?4 WHERE id = ?1 AND tag = ?5";
            match run(sql, params![row.id, row.private, row.tag, bytes(&row.index_keys), old])? {
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

/// Returns the next rows after this number, with their records.
fn records_after(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<Vec<(Row, Vec<u8>)>> {
    let mut statement = transaction.prepare_cached(
        "SELECT id, private, tag, names, body FROM object JOIN record USING (id) WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let known =
            Row { id: row.get(0)?, private: row.get(1)?, tag: row.get(2)?, index_keys: index_keys(row)? };
        Ok((known, row.get(4)?))
    };
    statement.query_map(params![last, BATCH as i64], read)?.collect()
}

/// Encodes index keys: 8 bytes each, least significant byte first.
fn bytes(index_keys: &[u64]) -> Vec<u8> {
    index_keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

fn index_keys(row: &rusqlite::Row<'_>) -> rusqlite::Result<super::index::IndexKeys> {
    let bytes = row.get_ref(3)?.as_blob()?;
    // A remainder that is too short for an index key is ignored.
    Ok(bytes.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key)).collect())
}

fn snapshot(transaction: &Transaction<'_>) -> rusqlite::Result<Snapshot> {
    let mut statement = transaction.prepare_cached("SELECT change, summary FROM token")?;
    statement.query_row([], |row| Ok(Snapshot { change: Change(row.get(0)?), summary: row.get(1)? }))
}

/// Writes the next state and its summary.
fn conclude(transaction: &Transaction<'_>, before: &Snapshot, summary: &[u8]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("UPDATE token SET change = ?1, summary = ?2")?;
    statement.execute(params![before.change.next().0, summary]).map(drop)
}

/// The reason why a transaction was aborted.
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

/// Syncs a directory, so that the name of a new file survives a crash.
fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

fn log_failure(path: &Path, what: &str, reason: &rusqlite::Error) -> Error {
    error!(file = %path.display(), "store, {what}: {reason}");
    match reason.sqlite_error_code() {
        _ if is_out_of_room(reason) => Error::DeviceMemory,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::TokenWriteProtected,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::TokenNotRecognized,
        Some(ErrorCode::OutOfMemory) => Error::HostMemory,
        _ => Error::DeviceError,
    }
}

fn log_io_failure(path: &Path, what: &str, reason: &std::io::Error) -> Error {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    error!(file = %path.display(), "store, {what}: {reason}");
    match reason.kind() {
        StorageFull | QuotaExceeded => Error::DeviceMemory,
        PermissionDenied | ReadOnlyFilesystem => Error::TokenWriteProtected,
        _ => Error::DeviceError,
    }
}
