//! Commits: each write of the store is one transaction. Before it commits, it checks that the names
//! of the token's files still belong to the open files.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior, params};
use tracing::{error, warn};

use super::disk_reserve;
use super::failure::log_failure;
use super::rows::{BODY, load_rows, object, record, snapshot};
use super::schema;
use super::{FORMAT, OpenFile};
use crate::error::{Error, Result};
use crate::store::seal::index::encode;
use crate::store::{self, Header, Purpose, Role, Row, Snapshot, Work, Write};
use crate::sync::lock;

/// The number of objects that [`objects_after`] reads at a time.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// The reason why a transaction was aborted.
pub(super) enum Fault {
    Refused(Error),
    Sqlite(rusqlite::Error),
}

/// What a transaction does with the bytes that it removes.
#[derive(Clone, Copy)]
pub(super) enum OldBytes {
    /// Each byte becomes zero.
    Zeroed,
    /// Pages that become free keep their bytes.
    KeptIfLarge,
}

pub(super) type Outcome<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(reason: rusqlite::Error) -> Self {
        Self::Sqlite(reason)
    }
}

impl OpenFile {
    /// Runs `work` in one transaction. On any error, the transaction changes nothing. If the disk
    /// is full, frees the space that the transaction took in the write-ahead log.
    pub(super) fn write<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Outcome<T>,
    ) -> Result<T> {
        self.write_over(what, OldBytes::Zeroed, work)
    }

    fn write_over<T>(
        &self,
        what: &str,
        old: OldBytes,
        work: impl FnOnce(&Transaction<'_>) -> Outcome<T>,
    ) -> Result<T> {
        self.expect_writable()?;
        let connection = lock(&self.writer);
        let attempt = || {
            let transaction = self.begin(&connection, old)?;
            let done = work(&transaction)?;
            self.expect_names(what).map_err(Fault::Refused)?;
            self.allocate(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        let outcome: Outcome<T> = attempt();
        drop(connection);
        outcome.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sqlite(reason) => {
                let error = log_failure(&self.path, what, &reason);
                if error == Error::DeviceMemory {
                    self.shrink_log();
                }
                error
            }
        })
    }

    /// Runs `write`. If the disk is full, frees the space of the reserve too, and runs `write`
    /// again, at last without zeros in place of what it removes. Then allocates the reserve again.
    pub(super) fn write_with_reserve<T>(
        &self,
        what: &str,
        mut work: impl FnMut(&Transaction<'_>) -> Outcome<T>,
    ) -> Result<T> {
        match self.write(what, &mut work) {
            Err(Error::DeviceMemory) => {}
            outcome => return outcome,
        }
        if let Err(reason) = disk_reserve::give_back(&self.path) {
            warn!(file = %self.path.display(), "the disk is full and no space was reserved: {reason}");
        }
        let mut outcome = self.write(what, &mut work);
        if matches!(outcome, Err(Error::DeviceMemory)) {
            // The log would have each page of a large object as zeros.
            outcome = self.write_over(what, OldBytes::KeptIfLarge, &mut work);
            if outcome.is_ok() {
                warn!(file = %self.path.display(), "the disk is full: old bytes of large objects stay in the file");
            }
        }
        self.shrink_log();
        self.take_reserve();
        outcome
    }

    /// Fails if a name of the token's files leads to another file than the open one.
    pub(super) fn expect_names(&self, what: &str) -> Result<()> {
        lock(&self.names).verify().map_err(|reason| {
            error!(file = %self.path.display(), "store, {what}: nothing is written: {reason}");
            Error::DeviceRemoved
        })
    }

    /// Begins a transaction on the writer's connection. If the schema has changed, fails unless it
    /// is exactly Jeton's schema. Also records whether another connection has written.
    ///
    /// Every transaction begins here and says what it does with old bytes. A setting of the
    /// connection would hold for a transaction of another thread too.
    pub(super) fn begin<'a>(
        &self,
        connection: &'a Connection,
        old: OldBytes,
    ) -> rusqlite::Result<Transaction<'a>> {
        let how = match old {
            OldBytes::Zeroed => "ON",
            OldBytes::KeptIfLarge => "FAST",
        };
        connection.pragma_update(None, "secure_delete", how)?;
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let version = schema::version(&transaction)?;
        if version != self.schema.load(Ordering::Acquire) {
            schema::verify(&transaction)?;
            self.schema.store(version, Ordering::Release);
        }
        self.note_others(&transaction)?;
        Ok(transaction)
    }
}

/// The transaction that a store passes to its work.
struct OpenTransaction<'a> {
    connection: &'a Connection,
    before: &'a Snapshot,
    /// The error of SQLite that ended a call.
    fault: Option<rusqlite::Error>,
}

impl OpenTransaction<'_> {
    /// Keeps an error of SQLite, and returns an error that ends the work.
    fn keep<T>(&mut self, outcome: rusqlite::Result<T>) -> Result<T> {
        outcome.map_err(|reason| {
            self.fault = Some(reason);
            Error::DeviceError
        })
    }
}

impl store::Transaction for OpenTransaction<'_> {
    fn before(&mut self) -> Result<Snapshot> {
        Ok(self.before.clone())
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<bool> {
        let mut all = true;
        for write in writes {
            let done = apply(self.connection, write);
            all &= self.keep(done)?;
        }
        Ok(all)
    }

    fn set_pin(&mut self, role: Role, old: Option<&[u8]>, record: &[u8]) -> Result<bool> {
        let sql = format!(
            "UPDATE token SET {0}_pin = ?1, {0}_failures = 0 WHERE one = 1 AND {0}_pin = coalesce(?2, {0}_pin)",
            role.prefix()
        );
        let replaced = self.connection.execute(&sql, params![record, old]);
        self.keep(replaced).map(|replaced| replaced != 0)
    }

    fn load(&mut self, id: i64, each: &mut dyn FnMut(Row)) -> Result<Option<Vec<u8>>> {
        let read = load_rows(self.connection, each).and_then(|()| record(self.connection, id));
        self.keep(read)
    }

    fn objects_after(&mut self, id: i64) -> Result<Vec<(Row, Vec<u8>)>> {
        let read = objects_after(self.connection, id);
        self.keep(read)
    }
}

/// Does the work of a transaction, and stores the state that it returns.
pub(super) fn run(connection: &Connection, purpose: Purpose, work: &mut Work<'_>) -> Outcome<()> {
    let before = snapshot(connection)?;
    let mut open = OpenTransaction { connection, before: &before, fault: None };
    let done = work(&mut open);
    let after = match (done, open.fault) {
        (_, Some(reason)) => return Err(Fault::Sqlite(reason)),
        (done, None) => done.map_err(Fault::Refused)?,
    };
    let Some(Snapshot { change, summary }) = after else { return Ok(()) };
    let mut statement =
        connection.prepare_cached("UPDATE token SET change = ?1, summary = ?2 WHERE one = 1")?;
    statement.execute(params![change.0, summary])?;
    if purpose == Purpose::Rewrite {
        connection.pragma_update(None, "user_version", FORMAT)?;
    }
    Ok(())
}

/// Deletes all objects and replaces the header. An existing token keeps its serial number and
/// slot ID.
pub(super) fn replace_content(transaction: &Transaction<'_>, header: &Header) -> rusqlite::Result<()> {
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

/// Runs one write. Returns whether it was done: a row is replaced or deleted only if it still has
/// the expected tag.
pub(super) fn apply(connection: &Connection, write: &Write<'_>) -> rusqlite::Result<bool> {
    let run = |sql: &str, values: &[&dyn ToSql]| connection.prepare_cached(sql)?.execute(values);
    let touched = match write {
        Write::Insert(row, body) => {
            run(
                "INSERT INTO object VALUES(?1, ?2, ?3, ?4)",
                params![row.id, row.private, row.tag, encode(&row.index_keys)],
            )?;
            run("INSERT INTO record VALUES(?1, ?2)", params![row.id, body])?
        }
        Write::Replace(old, row, body) => {
            let sql = "UPDATE object SET private = ?2, tag = ?3, names = ?4 WHERE id = ?1 AND tag = ?5";
            match run(sql, params![row.id, row.private, row.tag, encode(&row.index_keys), old])? {
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

/// Returns at most [`BATCH`] rows with their records, in order, from the first row whose ID is
/// greater than `last`. Ends after the record that makes it longer than [`BATCH_BYTES`].
pub(super) fn objects_after(connection: &Connection, last: i64) -> rusqlite::Result<Vec<(Row, Vec<u8>)>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id, private, tag, names, {BODY} FROM object JOIN record USING (id) WHERE id > ?1 ORDER BY id LIMIT ?2",
    ))?;
    let (mut rows, mut batch, mut bytes) = (statement.query(params![last, BATCH as i64])?, Vec::new(), 0);
    while bytes <= BATCH_BYTES
        && let Some(row) = rows.next()?
    {
        let record: Vec<u8> = row.get(4)?;
        bytes += record.len();
        batch.push((object(row)?, record));
    }
    Ok(batch)
}
