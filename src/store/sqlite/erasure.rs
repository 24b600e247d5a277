//! Removes the bytes that commits have replaced, from the main file and from the write-ahead log.
//!
//! SQLite zeroes old bytes in the pages that it writes (`secure_delete`). But at first these pages
//! are only in the log, which still has older copies of them. So the log is copied into the main
//! file and truncated.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use tracing::warn;

use super::commit::OldBytes;
use super::failure::log_failure;
use super::rows::change;
use super::{BUSY, OpenFile};
use crate::error::Error;
use crate::sync::lock;

/// How long the removal of old bytes waits for readers of the file. It is tried again later.
pub(super) const SCRUB_WAIT: Duration = Duration::from_millis(500);
/// The shortest time until the removal is tried again.
const SCRUB_PAUSE: Duration = Duration::from_secs(1);

impl OpenFile {
    /// Calls `work` while no process can write. If it succeeds, removes the content of the file and
    /// begins a new incarnation, so that every process that has the file open ends its login.
    /// `work` may remove the name of the file.
    pub(super) fn retire<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.expect_writable()?;
        let connection = lock(&self.writer);
        let fail = |reason: rusqlite::Error| log_failure(&self.path, "move", &reason);
        let transaction = self.begin(&connection, OldBytes::Zeroed).map_err(fail)?;
        self.expect_names("move")?;
        let done = work()?;
        if let Err(reason) = empty(&transaction).and_then(|()| transaction.commit()) {
            warn!(file = %self.path.display(), "processes that have the file open keep their login: {reason}");
        }
        drop(connection);
        self.scrub(SCRUB_WAIT);
        Ok(done)
    }

    /// Removes the old bytes. Waits up to `wait` for readers.
    ///
    /// A reader of an older state, in any process, prevents the removal. Then this function
    /// logs a warning, unless `wait` is zero, and a later write or login tries again. The commit
    /// itself is valid.
    pub(super) fn scrub(&self, wait: Duration) {
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
        *lock(&self.scrub_due) = due.as_ref().map(|_| Instant::now() + SCRUB_PAUSE);
        if let Some(reason) = due.filter(|_| !wait.is_zero()) {
            warn!(
                file = %self.path.display(),
                "old bytes stay in the file until a later write or login: {reason}"
            );
        }
    }

    /// Repeats a removal that a reader prevented. Does not wait for readers.
    pub(super) fn scrub_if_due(&self) {
        let due = *lock(&self.scrub_due);
        if due.is_some_and(|due| due <= Instant::now()) {
            self.scrub(Duration::ZERO);
        }
    }

    /// Copies the write-ahead log into the main file and truncates it, unless a reader needs it.
    pub(super) fn shrink_log(&self) {
        let connection = lock(&self.writer);
        let outcome = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
            .and(connection.busy_timeout(BUSY));
        if let Err(reason) = outcome {
            warn!(file = %self.path.display(), "the write-ahead log cannot be truncated: {reason}");
        }
    }
}

/// Removes the content of a file, and begins a new incarnation.
fn empty(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM object; DELETE FROM record")?;
    let sql = "UPDATE token SET change = ?1, so_pin = x'', user_pin = x'', summary = x'' WHERE one = 1";
    connection.execute(sql, params![change(connection)?.next_incarnation().0]).map(drop)
}
