//! The store in an SQLite file, which several processes share. It has a write-ahead log, and syncs
//! before it acknowledges a commit.

mod attempt;
pub(crate) mod attempt_lock;
mod changes;
mod commit;
pub(crate) mod detached;
mod directory;
mod disk_reserve;
mod erasure;
mod failure;
mod file_identity;
mod header;
mod inspect;
pub(crate) mod layout;
mod open;
mod pool;
mod read_only;
pub(crate) mod relocation;
mod replaced_files;
mod rows;
mod schema;
pub(crate) mod source;
mod store_file;
#[cfg(test)]
mod tests;
mod token_store;
mod wal_index;

pub use token_store::SqliteStore;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction};
use tracing::error;

use self::commit::replace_content;
use self::erasure::SCRUB_WAIT;
use self::failure::log_failure;
use self::file_identity::FileId;
use self::inspect::inspect;
use self::read_only::Still;
use self::replaced_files::Names;
use self::rows::{change, load_rows, read_header, snapshot};
use super::{Change, Header, Purpose, Row, Snapshot, Work, is_serial};
use crate::error::{Error, Result};
use crate::file_lock;
use crate::sync::lock;

/// The format version of the file. A file of a newer version is not touched. Since version 3, no
/// record has a secret attribute in clear, and a PIN record may need a sealing key.
const FORMAT: i64 = 3;
/// The oldest version that is read. The next login upgrades such a file to the newest version.
const OLDEST: i64 = 2;
/// How long a writer waits for another process.
const BUSY: Duration = file_lock::LIMIT;
/// The value for an unknown version.
const UNKNOWN: i64 = i64::MIN;

/// The file of one token, while SQLite has it open.
struct OpenFile {
    path: PathBuf,
    writer: Mutex<Connection>,
    /// A second connection, so that reads do not wait for a writer's sync.
    reader: Mutex<Connection>,
    /// The state of a file that is open read-only. Locked after the connections.
    still: Mutex<Option<Still>>,
    /// Whether the writer's connection is read-only.
    only_read: AtomicBool,
    file: FileId,
    names: Mutex<Names>,
    /// The schema version that the last write found to be ours.
    schema: AtomicI64,
    /// The data version of the writer's connection. Every commit of another connection changes it.
    data_version: AtomicI64,
    /// Whether another connection committed since the rows were last loaded.
    others_wrote: AtomicBool,
    /// The header of the log's index and the change number when SQLite was last asked and found no
    /// change, and the time.
    asked: Mutex<Option<(wal_index::Header, Change, Instant)>>,
    /// When the rows were last loaded, and how long that took.
    loaded: Mutex<Option<(Instant, Duration)>>,
    /// When the removal of old bytes is tried again; `None` if there are no old bytes.
    scrub_due: Mutex<Option<Instant>>,
}

/// The state of an open file that its next opening takes over.
#[derive(Clone, Copy, Default)]
struct Kept {
    /// See the fields of [`OpenFile`].
    others_wrote: bool,
    loaded: Option<(Instant, Duration)>,
    scrub_due: Option<Instant>,
}

impl OpenFile {
    fn read<T>(&self, what: &str, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let connection = self.current_reader()?;
        let done = work(&connection).map_err(|reason| log_failure(&self.path, what, &reason))?;
        self.expect_still(what).map(|()| done)
    }

    fn header(&self) -> Result<Header> {
        let header = self.read("header", read_header)?;
        match header {
            Ok(Some(header)) if is_serial(header.serial.as_bytes()) => Ok(header),
            Ok(_) => {
                error!(file = %self.path.display(), "this file has no token with a serial number");
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

    fn relabel(&self, label: &[u8; 32]) -> Result<()> {
        self.write_with_reserve("change the label", |transaction| {
            Ok(transaction.execute("UPDATE token SET label = ?1 WHERE one = 1", [label]).map(drop)?)
        })
    }

    fn is_write_protected(&self) -> bool {
        self.only_read.load(Ordering::Acquire)
    }

    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot> {
        let began = Instant::now();
        let mut connection = self.current_reader()?;
        // The flag is also reset before the rows are read.
        self.others_wrote.store(false, Ordering::Release);
        let mut load = || {
            let transaction = connection.transaction()?;
            load_rows(&transaction, each)?;
            snapshot(&transaction)
        };
        let loaded: rusqlite::Result<_> = load();
        let loaded = loaded.map_err(|reason| log_failure(&self.path, "load", &reason))?;
        self.expect_still("load")?;
        let end = Instant::now();
        *lock(&self.loaded) = Some((end, end - began));
        Ok(loaded)
    }

    fn record(&self, id: i64) -> Result<Option<Vec<u8>>> {
        self.read("record", |connection| rows::record(connection, id))
    }

    fn transact(&self, purpose: Purpose, work: &mut Work<'_>) -> Result<()> {
        let mut run = |transaction: &Transaction<'_>| commit::run(transaction, purpose, work);
        match purpose {
            // A failure has freed the space of the log.
            Purpose::Write => match self.write("commit", &mut run) {
                Err(Error::DeviceMemory) => self.write("commit", &mut run)?,
                outcome => outcome?,
            },
            Purpose::Erase => self.write_with_reserve("commit", run)?,
            Purpose::Rewrite => self.write("rewrite", run)?,
        }
        if purpose == Purpose::Write {
            self.scrub_if_due();
        } else {
            self.scrub(SCRUB_WAIT);
        }
        Ok(())
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

    fn copy(&self, path: &Path) -> Result<()> {
        let text = path.to_str().ok_or(Error::ArgumentsBad)?;
        // SQLite copies one state, and no free pages: the copy has no bytes of destroyed objects.
        self.read("copy", |connection| connection.execute("VACUUM INTO ?1", [text]).map(drop))
    }

    fn damage(&self) -> Result<Vec<String>> {
        let mut connection = self.current_reader()?;
        let outcome = connection.transaction().and_then(|transaction| inspect(&transaction, None));
        outcome
            .map(|inspection| inspection.damage)
            .map_err(|reason| log_failure(&self.path, "look for damage", &reason))
    }

    fn suspicious_since(&self, seen: Change) -> Result<bool> {
        let same = self.read("look for changes", |connection| Ok(change(connection)? == seen))?;
        Ok(same && self.is_look_due())
    }
}
