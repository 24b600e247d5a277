//! Commits: each write of the store is one transaction. Before it commits, it checks that the names
//! of the token's files still belong to the open files.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior, params};
use tracing::{error, warn};

use super::failure::log_failure;
use super::reserve;
use super::rows::{index_keys, snapshot};
use super::schema;
use super::{FORMAT, OpenFile, lock};
use crate::error::{Error, Result};
use crate::store::seal::index::encode;
use crate::store::{Change, Committed, Header, Rewriter, Row, Snapshot, Summarise, Write};

/// The number of records that [`rewrite_records`] reads at a time.
const BATCH: usize = 256;

/// The reason why a transaction was aborted.
pub(super) enum Fault {
    Refused(Error),
    Sqlite(rusqlite::Error),
}

pub(super) type Outcome<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(reason: rusqlite::Error) -> Self {
        Self::Sqlite(reason)
    }
}

impl OpenFile {
    /// Runs `work` in one transaction. On any error, the transaction changes nothing.
    pub(super) fn write<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Transaction<'_>) -> Outcome<T>,
    ) -> Result<T> {
        self.expect_writable()?;
        let mut connection = lock(&self.writer);
        let attempt = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            self.check_schema(&transaction)?;
            let done = work(&transaction)?;
            self.expect_names(what).map_err(Fault::Refused)?;
            transaction.commit()?;
            Ok(done)
        };
        let outcome: Outcome<T> = attempt();
        outcome.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sqlite(reason) => log_failure(&self.path, what, &reason),
        })
    }

    /// Runs `write`. If the disk is full, frees the space of the write-ahead log and of the
    /// reserve, and runs `write` once more. Then allocates the reserve again.
    pub(super) fn write_with_reserve<T>(
        &self,
        what: &str,
        work: impl Fn(&Transaction<'_>) -> Outcome<T>,
    ) -> Result<T> {
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

    /// Fails if a name of the token's files leads to another file than the open one.
    pub(super) fn expect_names(&self, what: &str) -> Result<()> {
        self.names().verify().map_err(|reason| {
            error!(file = %self.path.display(), "store, {what}: nothing is written: {reason}");
            Error::DeviceRemoved
        })
    }

    /// Runs before a transaction changes anything. If the schema has changed, fails unless it is
    /// exactly Jeton's schema. Also records whether another connection has written.
    pub(super) fn check_schema(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let version = schema::version(transaction)?;
        if version != self.schema.load(Ordering::Acquire) {
            schema::verify(transaction)?;
            self.schema.store(version, Ordering::Release);
        }
        self.note_others(transaction)
    }
}

/// Runs the writes of a commit. Then stores the next change number and the new summary.
pub(super) fn run_writes(
    transaction: &Transaction<'_>,
    writes: &[Write<'_>],
    summarise: &Summarise<'_>,
) -> Outcome<Committed> {
    let before = snapshot(transaction)?;
    let applied: Vec<_> =
        writes.iter().map(|write| apply(transaction, write)).collect::<rusqlite::Result<_>>()?;
    let summary = summarise(&before, &applied).map_err(Fault::Refused)?;
    conclude(transaction, &before, &summary)?;
    Ok(Committed { before: before.change, applied })
}

/// Passes each record to `rewriter` and stores the replacements. Then stores the new PIN records,
/// if there are any, the new change number and the new summary. Returns the previous change number.
pub(super) fn rewrite_records(transaction: &Transaction<'_>, rewriter: &mut dyn Rewriter) -> Outcome<Change> {
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
/// greater than `last`.
pub(super) fn records_after(connection: &Connection, last: i64) -> rusqlite::Result<Vec<(Row, Vec<u8>)>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, private, tag, names, body FROM object JOIN record USING (id) WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let known =
            Row { id: row.get(0)?, private: row.get(1)?, tag: row.get(2)?, index_keys: index_keys(row)? };
        Ok((known, row.get(4)?))
    };
    statement.query_map(params![last, BATCH as i64], read)?.collect()
}

/// Stores the next change number and the summary.
pub(super) fn conclude(
    transaction: &Transaction<'_>,
    before: &Snapshot,
    summary: &[u8],
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("UPDATE token SET change = ?1, summary = ?2")?;
    statement.execute(params![before.change.next().0, summary]).map(drop)
}
