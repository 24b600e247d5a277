//! The store of one token in the database.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, TryLockError};

use futures_util::TryStreamExt;
use futures_util::future::{try_join, try_join3};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tracing::error;

use super::Database;
use super::attempt::Running;
use super::connection::{Asked, News};
use super::doctor;
use super::failure::{Fault, Outcome};
use super::requests::Pending;
use super::rows::{self, HEADER};
use super::transaction::{self, Ended, OpenTransaction, execute};
use crate::error::{Error, Result};
use crate::store::{Attempt, Change, Header, Purpose, Role, Row, Snapshot, Store, Tag, Work};
use crate::sync::lock;

/// The largest number of changed objects whose records are read with their rows.
const FEW: usize = 16;
/// The largest number of records that wait for their use. If there are more, the next load drops
/// them.
const MOST_RECORDS: usize = 512;

pub(super) struct DatabaseStore {
    database: Arc<Database>,
    serial: String,
    /// The question for the change number. A later call reads its answer.
    asked: Mutex<Option<Asked<Answer>>>,
    /// Records that were read before their use.
    records: Mutex<HashMap<i64, Vec<u8>>>,
    /// The tags of the rows that were loaded last.
    tags: Mutex<HashMap<i64, Tag>>,
    /// The change number that `changed_since` found last. `incarnation` takes it.
    noted: Mutex<Option<Change>>,
    /// The state that the last load or commit of this process left; `None` if another call may have
    /// changed it since.
    last: Mutex<Option<LastState>>,
}

/// The latest state of the token that this process knows.
struct LastState {
    state: Snapshot,
    /// Whether the last commit found the state that this process knew. If not, other hosts write,
    /// and a commit with one round trip would fail most often.
    is_alone: bool,
}

impl DatabaseStore {
    pub(super) fn new(database: Arc<Database>, serial: &str) -> Self {
        Self {
            database,
            serial: serial.to_owned(),
            asked: Mutex::default(),
            records: Mutex::default(),
            tags: Mutex::default(),
            noted: Mutex::default(),
            last: Mutex::default(),
        }
    }

    fn key(&self) -> (&(dyn ToSql + Sync), Type) {
        (&self.serial, Type::TEXT)
    }

    /// Changes the row of the token with one statement.
    fn update(&self, what: &str, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<()> {
        match self.database.run(what, async |client| execute(client, sql, values).await)? {
            0 => Err(self.removed()),
            _ => Ok(()),
        }
    }

    /// Logs that the database has no such token any more.
    fn removed(&self) -> Error {
        error!(token = self.serial, "the token was removed from the database");
        Error::DeviceRemoved
    }

    async fn read_records(&self, client: &Client, ids: &[i64]) -> Outcome<HashMap<i64, Vec<u8>>> {
        let sql = "SELECT id, body FROM object WHERE serial = $1 AND id = ANY ($2)";
        let found = client.query_typed(sql, &[self.key(), (&ids, Type::INT8_ARRAY)]).await?;
        found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

/// The answer to the question for the change number.
struct Answer {
    /// `None` if the database has no such token.
    change: Option<Change>,
    has_standby: bool,
}

/// Reads the change number, and whether the server has a standby.
async fn ask(client: &Client, serial: &str) -> Outcome<Answer> {
    let sql =
        "SELECT (SELECT change FROM token WHERE serial = $1), EXISTS (SELECT FROM pg_stat_get_wal_senders())";
    let found = client.query_typed_one(sql, &[(&serial, Type::TEXT)]).await?;
    Ok(Answer { change: found.try_get::<_, Option<i64>>(0)?.map(Change), has_standby: found.try_get(1)? })
}

impl Store for DatabaseStore {
    fn header(&self) -> Result<Header> {
        let sql = format!("{HEADER} WHERE serial = $1");
        let found = self.database.run("header", async |client| {
            let found = client.query_typed_opt(&sql, &[self.key()]).await?;
            found.as_ref().map(rows::header).transpose()
        });
        found?.ok_or_else(|| self.removed())
    }

    fn is_open(&self) -> bool {
        true
    }

    fn initialize(&self, header: &Header) -> Result<()> {
        lock(&self.records).clear();
        lock(&self.last).take();
        self.database.run("initialise", async |client| transaction::initialize(client, header).await)?;
        self.database.announce(&self.serial);
        Ok(())
    }

    fn begin_attempt(&self, role: Role, limit: u32) -> Result<Attempt> {
        Ok(Box::new(Running::begin(&self.database, &self.serial, role, limit)?))
    }

    fn forgive(&self, role: Role) -> Result<()> {
        let sql = format!("UPDATE token SET {}_failures = 0 WHERE serial = $1", role.prefix());
        self.update("reset the count of wrong PINs", &sql, &[self.key()])
    }

    fn relabel(&self, label: &[u8; 32]) -> Result<()> {
        let (sql, label) = ("UPDATE token SET label = $2 WHERE serial = $1", &label[..]);
        self.update("change the label", sql, &[self.key(), (&label, Type::BYTEA)])
    }

    fn take_back(&self, role: Role, count: u32) -> Result<()> {
        let failures = format!("{}_failures", role.prefix());
        let sql = format!("UPDATE token SET {failures} = greatest({failures} - $2, 0) WHERE serial = $1");
        let values = [self.key(), (&i64::from(count) as &(dyn ToSql + Sync), Type::INT8)];
        self.update("correct the count of wrong PINs", &sql, &values)
    }

    fn is_write_protected(&self) -> bool {
        false
    }

    fn load(&self, each: &mut dyn FnMut(Row)) -> Result<Snapshot> {
        let mut tags = lock(&self.tags);
        let loaded_before = std::mem::take(&mut *tags);
        lock(&self.last).take();
        // The ordinary time limit applies, because ordinary calls load. Each statement of the
        // transaction sees the same state.
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let state = "SELECT change, summary FROM token WHERE serial = $1";
        let all = "SELECT id, private, tag, names FROM object WHERE serial = $1 ORDER BY id";
        let loaded = self.database.run_once("load", async |client| {
            let (state_key, rows_key) = ([self.key()], [(&self.serial, Type::TEXT)]);
            let ((), found, stream) = try_join3(
                client.batch_execute(begin),
                client.query_typed(state, &state_key),
                client.query_typed_raw(all, rows_key),
            )
            .await?;
            let (mut stream, mut changed) = (pin!(stream), Vec::new());
            while let Some(columns) = stream.try_next().await? {
                let row = rows::row(&columns)?;
                if loaded_before.get(&row.id) != Some(&row.tag) {
                    changed.push(row.id);
                }
                tags.insert(row.id, row.tag);
                each(row);
            }
            // A few changed objects are often used at once. Their records are read in the same
            // state as their rows, so that they match.
            let few = !loaded_before.is_empty() && changed.len() <= FEW;
            let wanted = if few { &changed[..] } else { &[] };
            let commit = async { client.batch_execute("COMMIT").await.map_err(Fault::from) };
            let (records, ()) = try_join(self.read_records(client, wanted), commit).await?;
            let mut kept = lock(&self.records);
            if kept.len() > MOST_RECORDS {
                kept.clear();
            }
            kept.extend(records);
            found.first().map(rows::snapshot).transpose()
        });
        let loaded = loaded?.ok_or_else(|| self.removed())?;
        *lock(&self.last) = Some(LastState { state: loaded.clone(), is_alone: true });
        Ok(loaded)
    }

    fn record(&self, id: i64) -> Result<Option<Vec<u8>>> {
        if let Some(record) = lock(&self.records).remove(&id) {
            return Ok(Some(record));
        }
        let found = self.database.run("record", async |client| self.read_records(client, &[id]).await)?;
        Ok(found.into_values().next())
    }

    fn prefetch(&self, ids: &[i64]) {
        if ids.is_empty() {
            return;
        }
        // If this fails, `record` reads each record when it is used.
        if let Ok(found) = self.database.run("records", async |client| self.read_records(client, ids).await) {
            *lock(&self.records) = found;
        }
    }

    /// Commits with one round trip if there are few writes and no other host wrote meanwhile.
    fn transact(&self, purpose: Purpose, work: &mut Work<'_>) -> Result<()> {
        let last = lock(&self.last).take();
        let mut known = last.as_ref().filter(|last| last.is_alone).map(|last| last.state.clone());
        if purpose == Purpose::Rewrite {
            lock(&self.records).clear();
            known = None;
        }
        let ended = self.database.transact(purpose, |exchange| {
            loop {
                match OpenTransaction::new(exchange, &self.serial, known.take()).run(work)? {
                    Ended::OtherState => {}
                    ended => return Ok(ended),
                }
            }
        })?;
        if let Ended::Committed(before, state) = ended {
            let is_alone = last.is_none_or(|last| last.state.change == before);
            *lock(&self.last) = Some(LastState { state, is_alone });
            self.database.announce(&self.serial);
        }
        Ok(())
    }

    /// The server removes old bytes (`VACUUM`).
    fn tidy(&self) {}

    fn is_outdated(&self) -> Result<bool> {
        Ok(false)
    }

    fn changed_since(&self, seen: Change) -> Result<bool> {
        let answer = self.database.run("look for changes", async |client| ask(client, &self.serial).await)?;
        lock(&self.database.link).note_standby(answer.has_standby);
        let now = answer.change.ok_or_else(|| self.removed())?;
        *lock(&self.noted) = Some(now);
        Ok(now != seen)
    }

    fn incarnation(&self) -> Result<i64> {
        let noted = lock(&self.noted).take();
        Ok(noted.map_or_else(|| self.header().map(|header| header.change), Ok)?.incarnation())
    }

    fn noticed_since(&self, seen: Change) -> Result<Option<bool>> {
        let mut link = match self.database.link.try_lock() {
            Ok(link) => link,
            Err(TryLockError::Poisoned(link)) => link.into_inner(),
            // Another thread is waiting for the server.
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let mut asked = lock(&self.asked);
        let answer = link.ask_without_wait(&self.serial, &mut asked, |client| {
            let serial = self.serial.clone();
            let pending: Pending<_> = Box::pin(async move { ask(&client, &serial).await });
            pending
        });
        match answer {
            Ok(News::Waiting) => Ok(None),
            Ok(News::Quiet) => Ok(Some(false)),
            Ok(News::Answer(answer)) => {
                link.note_standby(answer.has_standby);
                Ok(Some(answer.change.ok_or_else(|| self.removed())? != seen))
            }
            // The log has the beginning and the end of an outage.
            Err(Fault::Unreachable(_) | Fault::Paused) => Err(Error::DeviceError),
            Err(reason) => Err(reason.log("look for changes")),
        }
    }

    fn announces_commits(&self) -> bool {
        true
    }

    fn is_outage_allowed(&self) -> bool {
        self.database.outage.is_allowed()
    }

    fn suspicious_since(&self, _: Change) -> Result<bool> {
        Ok(false)
    }

    fn copy(&self, _: &Path) -> Result<()> {
        Err(Error::FunctionNotSupported)
    }

    fn damage(&self) -> Result<Vec<String>> {
        let work = async |client: &Client| doctor::inspect(client, &self.serial).await;
        self.database.run_long("look for damage", work).map(|inspection| inspection.damage)
    }
}
