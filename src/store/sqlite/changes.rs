//! Notices the commits of other connections and other processes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::rows::change;
use super::{OpenFile, UNKNOWN, wal_index};
use crate::error::Result;
use crate::store::Change;
use crate::sync::lock;

/// The shortest pause between two loads that only look for altered rows, as a multiple of the
/// duration of a load.
const SHARE: u32 = 16;

/// The time for which SQLite is not asked while the header of the log's index stays the same.
const TRUSTED: Duration = Duration::from_secs(1);

impl OpenFile {
    /// Returns whether there was a commit since that state, or a suspicious write. Asks SQLite only
    /// if the header of the log's index has changed since, and once a second.
    pub(super) fn changed_since(&self, seen: Change) -> Result<bool> {
        let reader = lock(&self.reader);
        // For a file that is open read-only, SQLite would create an index.
        let has_log = lock(&self.still).is_none();
        let header = has_log.then(|| wal_index::header(&reader)).flatten();
        drop(reader);
        let asked = *lock(&self.asked);
        if let (Some(header), Some((known, change, at))) = (header, asked)
            && (known, change) == (header, seen)
            && at.elapsed() < TRUSTED
            && !self.others_wrote.load(Ordering::Acquire)
        {
            return Ok(false);
        }
        let changed = self.read("look for changes", |connection| Ok(change(connection)? != seen))?;
        let changed = changed || self.is_look_due();
        let asked = header.filter(|_| !changed).map(|header| (header, seen, Instant::now()));
        *lock(&self.asked) = asked;
        Ok(changed)
    }

    /// Notes whether another connection committed since the last call.
    pub(super) fn note_others(&self, writer: &Connection) -> rusqlite::Result<()> {
        let version = data_version(writer)?;
        let known = self.data_version.swap(version, Ordering::AcqRel);
        if known != version && known != UNKNOWN {
            self.others_wrote.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Returns whether another connection committed since the rows were loaded, and the last load
    /// was long enough ago. So loads take a small part of the time, also in large tokens.
    pub(super) fn is_look_due(&self) -> bool {
        // If another thread holds the writer's connection, that thread notes the commits.
        if let Ok(writer) = self.writer.try_lock()
            && self.note_others(&writer).is_err()
        {
            return false;
        }
        let last = *lock(&self.loaded);
        self.others_wrote.load(Ordering::Acquire) && is_rested(last)
    }
}

/// Returns whether the last load, with its end and duration, was long enough ago.
pub(super) fn is_rested(last: Option<(Instant, Duration)>) -> bool {
    last.is_none_or(|(end, took)| end.elapsed() >= SHARE * took)
}

/// Returns a number that changes whenever another connection commits.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
