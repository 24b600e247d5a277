//! Transactions that change a token.
//!
//! The first statement of each locks the row of the token until the end. So the commits of all
//! hosts follow each other, and each sees the state that the one before it left.
//!
//! A commit of a few objects takes one round trip if no other host wrote since this process last
//! saw the state: the process makes the summary of the new state from the one that it knows
//! ([`commit_at_once`]). Other commits take two, because the summary depends on what the first
//! round trip finds. A change of an object that another host has changed meanwhile takes two more
//! round trips.

use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::connection::Exchange;
use super::failure::{Fault, Outcome};
use super::rows::{self, HEADER};
use crate::error::{Error, Result};
use crate::store::seal::index::encode;
use crate::store::{Change, Header, Role, Row, Snapshot, Transaction, Work, Write};

/// The number of objects that are read together.
const BATCH: i64 = 256;
/// The largest number of writes that are sent in one statement with the new state.
const MOST_AT_ONCE: usize = 16;

pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// Runs a statement. Returns the number of rows that it changed.
pub(super) async fn execute(client: &Client, sql: &str, values: &[Value<'_>]) -> Outcome<u64> {
    Ok(client.execute_typed(sql, values).await?)
}

/// Reads the header of a token, with the summary. Fails with `DeviceRemoved` if there is no such
/// token.
pub(super) async fn read_header(client: &Client, serial: &str) -> Outcome<Header> {
    let header = format!("{HEADER} WHERE serial = $1");
    let summary = "SELECT change, summary FROM token WHERE serial = $1";
    let key: [Value<'_>; 1] = [(&serial, Type::TEXT)];
    let (header, summary) =
        try_join(client.query_typed_opt(&header, &key), client.query_typed_opt(summary, &key)).await?;
    let (Some(header), Some(summary)) = (header, summary) else {
        return Err(Fault::Refused(Error::DeviceRemoved));
    };
    let snapshot = rows::snapshot(&summary)?;
    Ok(Header { change: snapshot.change, summary: snapshot.summary, ..rows::header(&header)? })
}

/// Adds the row of a token.
pub(super) async fn insert_header(client: &Client, header: &Header) -> Outcome<()> {
    let slot = i64::try_from(header.slot).map_err(|_| Fault::Refused(Error::GeneralError))?;
    let label = &header.label[..];
    let failures = [header.so.failures, header.user.failures].map(i64::from);
    let values: [Value<'_>; 9] = [
        (&header.serial, Type::TEXT),
        (&slot, Type::INT8),
        (&label, Type::BYTEA),
        (&header.so.record, Type::BYTEA),
        (&failures[0], Type::INT8),
        (&header.user.record, Type::BYTEA),
        (&failures[1], Type::INT8),
        (&header.change.0, Type::INT8),
        (&header.summary, Type::BYTEA),
    ];
    execute(client, "INSERT INTO token VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", &values).await.map(drop)
}

/// Begins a transaction and locks the token. Returns its state.
async fn begin(client: &Client, serial: &str) -> Outcome<Snapshot> {
    // If the server's time limit ended the wait for a standby, it would report a commit that the
    // standby does not have. The client has its own time limit.
    let begin = client.batch_execute("BEGIN; SET LOCAL statement_timeout = 0");
    let sql = "SELECT change, summary FROM token WHERE serial = $1 FOR NO KEY UPDATE";
    let values = [(&serial as &(dyn ToSql + Sync), Type::TEXT)];
    let ((), found) = try_join(begin, client.query_typed(sql, &values)).await?;
    // The row was deleted.
    found.first().map_or(Err(Fault::Refused(Error::DeviceRemoved)), rows::snapshot)
}

/// Writes the new state and commits.
async fn conclude(client: &Client, serial: &str, change: Change, summary: &[u8]) -> Outcome<()> {
    let sql = "UPDATE token SET change = $2, summary = $3 WHERE serial = $1";
    let values: [Value<'_>; 3] = [(&serial, Type::TEXT), (&change.0, Type::INT8), (&summary, Type::BYTEA)];
    try_join(client.execute_typed(sql, &values), client.batch_execute("COMMIT")).await?;
    Ok(())
}

pub(super) struct OpenTransaction<'a, 'b> {
    exchange: &'a mut Exchange<'b>,
    serial: &'a str,
    phase: Phase,
    /// The reason why a call failed.
    fault: Option<Fault>,
}

/// What was sent to the server.
enum Phase {
    /// Nothing. If the state is known, few writes may wait for the new state.
    New(Option<Snapshot>),
    /// Nothing. These writes are sent with the new state, in one statement, if the token is in this
    /// state.
    Waiting(Snapshot, Values, Vec<String>),
    /// The beginning and some writes. The token was in this state.
    Begun(Snapshot),
}

/// The end of a transaction that did not fail.
pub(super) enum Ended {
    /// The work ended it without a new state.
    Unchanged,
    /// The token was in the first state, and is in the second one.
    Committed(Change, Snapshot),
    /// The token is not in the known state, or a row is not the expected one. Nothing was changed.
    OtherState,
}

impl<'a, 'b> OpenTransaction<'a, 'b> {
    /// Returns a transaction that did not begin. `known` is the state of the token if no other host
    /// is likely to have changed it.
    pub(super) fn new(exchange: &'a mut Exchange<'b>, serial: &'a str, known: Option<Snapshot>) -> Self {
        Self { exchange, serial, phase: Phase::New(known), fault: None }
    }

    /// Does the work, and writes the state that it returns.
    pub(super) fn run(mut self, work: &mut Work<'_>) -> Outcome<Ended> {
        let done = work(&mut self);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let after = done.map_err(Fault::Refused)?;
        let serial = self.serial;
        match (self.phase, after) {
            (Phase::Begun(before), Some(after)) => self.exchange.run(async |client| {
                conclude(client, serial, after.change, &after.summary).await?;
                Ok(Ended::Committed(before.change, after))
            }),
            (Phase::Waiting(known, values, writes), Some(after)) => self.exchange.run(async |client| {
                let done = commit_at_once(client, values, &writes, &known, &after).await?;
                Ok(if done { Ended::Committed(known.change, after) } else { Ended::OtherState })
            }),
            (Phase::Begun(_), None) => {
                self.exchange.run(async |client| Ok(client.batch_execute("ROLLBACK").await?))?;
                Ok(Ended::Unchanged)
            }
            (Phase::New(_) | Phase::Waiting(..), _) => Ok(Ended::Unchanged),
        }
    }

    /// Runs a part of the work on the server, after the beginning of the transaction. Sends both
    /// without a wait between them.
    fn part<T>(&mut self, work: impl AsyncFnOnce(&Client, &str) -> Outcome<T>) -> Result<T> {
        if let Phase::Waiting(..) = self.phase {
            // The writes that wait must be the only part.
            return Err(Error::GeneralError);
        }
        let (serial, phase) = (self.serial, &self.phase);
        let done = self.exchange.run(async |client| match phase {
            Phase::Begun(_) => Ok((None, work(client, serial).await?)),
            _ => try_join(async { begin(client, serial).await.map(Some) }, work(client, serial)).await,
        });
        match done {
            Ok((before, done)) => {
                before.into_iter().for_each(|before| self.phase = Phase::Begun(before));
                Ok(done)
            }
            Err(fault) => {
                self.fault = Some(fault);
                Err(Error::DeviceError)
            }
        }
    }
}

impl Transaction for OpenTransaction<'_, '_> {
    fn before(&mut self) -> Result<Snapshot> {
        if let Phase::New(_) = self.phase {
            self.part(async |_, _| Ok(()))?;
        }
        match &self.phase {
            Phase::Waiting(before, ..) | Phase::Begun(before) => Ok(before.clone()),
            Phase::New(_) => Err(Error::GeneralError),
        }
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<bool> {
        if let Phase::New(known) = &mut self.phase
            && writes.len() <= MOST_AT_ONCE
            && let Some(known) = known.take()
        {
            let mut values = Values::new(self.serial);
            let condition = "EXISTS (SELECT FROM state)";
            let statements = writes.iter().map(|write| values.statement(write, condition)).collect();
            self.phase = Phase::Waiting(known, values, statements);
            return Ok(true);
        }
        let applied = self.part(async |client, serial| {
            try_join_all(writes.iter().map(|write| apply(client, serial, write))).await
        });
        applied.map(|applied| applied.into_iter().all(|applied| applied))
    }

    fn set_pin(&mut self, role: Role, old: Option<&[u8]>, record: &[u8]) -> Result<bool> {
        let sql = format!(
            "UPDATE token SET {0}_pin = $2, {0}_failures = 0 WHERE serial = $1 AND {0}_pin = coalesce($3, {0}_pin)",
            role.prefix()
        );
        self.part(async |client, serial| {
            let values: [Value<'_>; 3] = [(&serial, Type::TEXT), (&record, Type::BYTEA), (&old, Type::BYTEA)];
            Ok(execute(client, &sql, &values).await? != 0)
        })
    }

    fn load(&mut self, id: i64, each: &mut dyn FnMut(Row)) -> Result<Option<Vec<u8>>> {
        let record = "SELECT body FROM object WHERE serial = $1 AND id = $2";
        let all = "SELECT id, private, tag, names FROM object WHERE serial = $1 ORDER BY id";
        self.part(async |client, serial| {
            let record_key: [Value<'_>; 2] = [(&serial, Type::TEXT), (&id, Type::INT8)];
            // The rows are the last answer, because the client library keeps no answer while it
            // waits for another one.
            let (record, rows) = try_join(
                client.query_typed_opt(record, &record_key),
                client.query_typed_raw(all, [(&serial, Type::TEXT)]),
            )
            .await?;
            let mut rows = pin!(rows);
            while let Some(columns) = rows.try_next().await? {
                each(rows::row(&columns)?);
            }
            Ok(record.as_ref().map(|columns| columns.try_get(0)).transpose()?)
        })
    }

    fn objects_after(&mut self, id: i64) -> Result<Vec<(Row, Vec<u8>)>> {
        let sql = "SELECT id, private, tag, names, body FROM object
                   WHERE serial = $1 AND id > $2 ORDER BY id LIMIT $3";
        self.part(async |client, serial| {
            let values: [Value<'_>; 3] = [(&serial, Type::TEXT), (&id, Type::INT8), (&BATCH, Type::INT8)];
            let batch = client.query_typed(sql, &values).await?;
            batch.iter().map(|columns| Ok((rows::row(columns)?, columns.try_get(4)?))).collect()
        })
    }
}

/// Runs writes if the token is in the state `known`, and writes the state that follows, in one
/// statement and so in one round trip. Returns `false`, and changes nothing, if the token is in
/// another state or if a row is not the expected one.
async fn commit_at_once(
    client: &Client,
    mut values: Values,
    writes: &[String],
    known: &Snapshot,
    after: &Snapshot,
) -> Outcome<bool> {
    let mut sql = format!(
        "WITH state AS (
             UPDATE token SET change = {}, summary = {}
             WHERE serial = $1 AND change = {} AND summary = {} RETURNING serial
         )",
        values.add(after.change.0, Type::INT8),
        values.add(after.summary.clone(), Type::BYTEA),
        values.add(known.change.0, Type::INT8),
        values.add(known.summary.clone(), Type::BYTEA)
    );
    let mut written = String::from("1");
    for (number, statement) in writes.iter().enumerate() {
        sql += &format!(", write{number} AS ({statement} RETURNING id)");
        written += &format!(" * (SELECT count(*) FROM write{number})");
    }
    // The division fails if a row is not the expected one, and this ends the whole statement.
    sql += &format!(" SELECT count(*), CASE WHEN count(*) = 1 THEN 1 / ({written}) END FROM state");
    match client.query_typed_one(&sql, &values.borrow()).await {
        Ok(found) => Ok(found.try_get::<_, i64>(0)? == 1),
        Err(reason) if reason.code() == Some(&SqlState::DIVISION_BY_ZERO) => Ok(false),
        Err(reason) => Err(reason.into()),
    }
}

/// The values of a statement, with their types in the database. The first one is the serial number
/// of the token.
struct Values(Vec<(Box<dyn ToSql + Sync>, Type)>);

impl Values {
    fn new(serial: &str) -> Self {
        Self(vec![(Box::new(serial.to_owned()), Type::TEXT)])
    }

    /// Adds a value. Returns its placeholder.
    fn add(&mut self, value: impl ToSql + Sync + 'static, kind: Type) -> String {
        self.0.push((Box::new(value), kind));
        format!("${}", self.0.len())
    }

    fn borrow(&self) -> Vec<Value<'_>> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }

    /// Adds the values of a write. Returns its statement, which changes no row if `condition` is
    /// false or if the row is not the expected one.
    fn statement(&mut self, write: &Write<'_>, condition: &str) -> String {
        let id = self.add(write.id(), Type::INT8);
        match write {
            Write::Insert(row, body) => {
                let [private, tag, names, body] = self.columns(row, body);
                format!(
                    "INSERT INTO object SELECT $1, {id}, {private}, {tag}, {names}, {body} WHERE {condition}"
                )
            }
            Write::Replace(old, row, body) => {
                let [private, tag, names, body] = self.columns(row, body);
                let old = self.add(old.to_vec(), Type::BYTEA);
                format!(
                    "UPDATE object SET private = {private}, tag = {tag}, names = {names}, body = {body}
                     WHERE serial = $1 AND id = {id} AND tag = {old} AND {condition}"
                )
            }
            Write::Delete(_, old) => {
                let old = self.add(old.to_vec(), Type::BYTEA);
                format!("DELETE FROM object WHERE serial = $1 AND id = {id} AND tag = {old} AND {condition}")
            }
        }
    }

    /// Adds the values of the columns that a write sets.
    fn columns(&mut self, row: &Row, body: &[u8]) -> [String; 4] {
        [
            self.add(row.private, Type::BOOL),
            self.add(row.tag.to_vec(), Type::BYTEA),
            self.add(encode(&row.index_keys), Type::BYTEA),
            self.add(body.to_vec(), Type::BYTEA),
        ]
    }
}

/// Runs a write. Returns whether the row was the expected one.
pub(super) async fn apply(client: &Client, serial: &str, write: &Write<'_>) -> Outcome<bool> {
    let mut values = Values::new(serial);
    let sql = values.statement(write, "true");
    Ok(execute(client, &sql, &values.borrow()).await? != 0)
}

/// Replaces the token's content by this header and no objects. Fails with `DeviceRemoved` if
/// another process did so since the header was made.
pub(super) async fn initialize(client: &Client, header: &Header) -> Outcome<()> {
    let before = begin(client, &header.serial).await?;
    if before.change >= header.change {
        return Err(Fault::Refused(Error::DeviceRemoved));
    }
    let serial = &header.serial;
    let label = &header.label[..];
    let sql = "UPDATE token SET label = $2, so_pin = $3, so_failures = $4, user_pin = $5, user_failures = $6
               WHERE serial = $1";
    let failures = [header.so.failures, header.user.failures].map(i64::from);
    let values: [Value<'_>; 6] = [
        (serial, Type::TEXT),
        (&label, Type::BYTEA),
        (&header.so.record, Type::BYTEA),
        (&failures[0], Type::INT8),
        (&header.user.record, Type::BYTEA),
        (&failures[1], Type::INT8),
    ];
    execute(client, "DELETE FROM object WHERE serial = $1", &[(serial, Type::TEXT)]).await?;
    execute(client, sql, &values).await?;
    conclude(client, serial, header.change, &header.summary).await
}
