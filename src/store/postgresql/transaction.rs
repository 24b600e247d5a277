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

use super::failure::{Fault, Outcome};
use super::rows::{self, HEADER};
use crate::error::Error;
use crate::store::seal::index::encode;
use crate::store::{
    Again, Change, Committed, Header, Rewrite, Rewriter, Role, Row, Snapshot, Summarise, Write,
};

/// The number of records that are read together when all are rewritten.
const BATCH: i64 = 256;

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

/// A commit that was made, and the state that follows.
pub(super) type Done = (Committed, Snapshot);

/// Runs the writes of a commit if the token is in the state `known`, and writes the state that
/// follows, in one statement and so in one round trip. Returns `None`, and changes nothing, if the
/// token is in another state or if a row is not the expected one.
pub(super) async fn commit_at_once(
    client: &Client,
    serial: &str,
    writes: &[Write<'_>],
    known: &Snapshot,
    summarise: &Summarise<'_>,
) -> Outcome<Option<Done>> {
    let applied = vec![true; writes.len()];
    let change = known.change.next();
    let summary = summarise(known, &applied).map_err(Fault::Refused)?;
    let mut values = Values::new(&serial);
    let mut sql = format!(
        "WITH state AS (
             UPDATE token SET change = {}, summary = {}
             WHERE serial = $1 AND change = {} AND summary = {} RETURNING serial
         )",
        values.add(change.0, Type::INT8),
        values.add(&summary, Type::BYTEA),
        values.add(known.change.0, Type::INT8),
        values.add(&known.summary, Type::BYTEA)
    );
    let mut written = String::from("1");
    for (number, write) in writes.iter().enumerate() {
        let statement = values.statement(write, "EXISTS (SELECT FROM state)");
        sql += &format!(", write{number} AS ({statement} RETURNING id)");
        written += &format!(" * (SELECT count(*) FROM write{number})");
    }
    // The division fails if a row is not the expected one, and this ends the whole statement.
    sql += &format!(" SELECT count(*), CASE WHEN count(*) = 1 THEN 1 / ({written}) END FROM state");
    let is_done = match client.query_typed_one(&sql, &values.borrow()).await {
        Ok(found) => found.try_get::<_, i64>(0)? == 1,
        Err(reason) if reason.code() == Some(&SqlState::DIVISION_BY_ZERO) => false,
        Err(reason) => return Err(reason.into()),
    };
    drop(values);
    let committed = Committed { before: known.change, applied };
    Ok(is_done.then_some((committed, Snapshot { change, summary })))
}

/// Runs the writes of a commit, and writes the state that follows.
pub(super) async fn commit(
    client: &Client,
    serial: &str,
    writes: &[Write<'_>],
    summarise: &Summarise<'_>,
) -> Outcome<Done> {
    let applied = try_join_all(writes.iter().map(|write| apply(client, serial, write)));
    // The requests are sent in this order, without a wait between them.
    let (before, applied) = try_join(begin(client, serial), applied).await?;
    let summary = summarise(&before, &applied).map_err(Fault::Refused)?;
    let change = before.change.next();
    conclude(client, serial, change, &summary).await?;
    Ok((Committed { before: before.change, applied }, Snapshot { change, summary }))
}

/// Runs the write of one object, and writes the state that follows. If the row is not the expected
/// one, runs the write that `again` makes from the current rows.
pub(super) async fn commit_one(
    client: &Client,
    serial: &str,
    write: &Write<'_>,
    summarise: &Summarise<'_>,
    again: &mut dyn Again,
) -> Outcome<Done> {
    let (before, applied) = try_join(begin(client, serial), apply(client, serial, write)).await?;
    let known = before.change;
    let summary = if applied {
        summarise(&before, &[true]).map_err(Fault::Refused)?
    } else {
        // No other host can write until the end of this transaction. So the write is made again
        // once, however often other hosts change the object.
        again.begin(before).map_err(Fault::Refused)?;
        repeat(client, serial, write.id(), again).await?
    };
    let change = known.next();
    conclude(client, serial, change, &summary).await?;
    Ok((Committed { before: known, applied: vec![true] }, Snapshot { change, summary }))
}

/// Loads the current rows, and runs the write that `again` makes from them. Returns the summary of
/// the state that follows.
async fn repeat(client: &Client, serial: &str, id: i64, again: &mut dyn Again) -> Outcome<Vec<u8>> {
    let record = "SELECT body FROM object WHERE serial = $1 AND id = $2";
    let record_key: [Value<'_>; 2] = [(&serial, Type::TEXT), (&id, Type::INT8)];
    let all = "SELECT id, private, tag, names FROM object WHERE serial = $1 ORDER BY id";
    // The rows are the last answer, because the client library keeps no answer while it waits for
    // another one.
    let (record, rows) = try_join(
        client.query_typed_opt(record, &record_key),
        client.query_typed_raw(all, [(&serial, Type::TEXT)]),
    )
    .await?;
    let mut rows = pin!(rows);
    while let Some(columns) = rows.try_next().await? {
        again.row(rows::row(&columns)?);
    }
    let record = record.as_ref().map(|columns| columns.try_get(0)).transpose()?;
    let Rewrite { old, new, summary } = again.write(record).map_err(Fault::Refused)?;
    let write = match &new {
        Some((row, record)) => Write::Replace(old, row, record),
        None => Write::Delete(id, old),
    };
    if !apply(client, serial, &write).await? {
        // Only an administrator writes without the lock of the token.
        return Err(Fault::malformed("an object"));
    }
    Ok(summary)
}

/// The values of a statement, with their types in the database. The first one is the serial number
/// of the token.
struct Values<'a>(Vec<(Box<dyn ToSql + Sync + 'a>, Type)>);

impl<'a> Values<'a> {
    fn new(serial: &'a &str) -> Self {
        Self(vec![(Box::new(serial), Type::TEXT)])
    }

    /// Adds a value. Returns its placeholder.
    fn add(&mut self, value: impl ToSql + Sync + 'a, kind: Type) -> String {
        self.0.push((Box::new(value), kind));
        format!("${}", self.0.len())
    }

    fn borrow(&self) -> Vec<Value<'_>> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }

    /// Adds the values of a write. Returns its statement, which changes no row if `condition` is
    /// false or if the row is not the expected one.
    fn statement(&mut self, write: &'a Write<'_>, condition: &str) -> String {
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
                let old = self.add(&old[..], Type::BYTEA);
                format!(
                    "UPDATE object SET private = {private}, tag = {tag}, names = {names}, body = {body}
                     WHERE serial = $1 AND id = {id} AND tag = {old} AND {condition}"
                )
            }
            Write::Delete(_, old) => {
                let old = self.add(&old[..], Type::BYTEA);
                format!("DELETE FROM object WHERE serial = $1 AND id = {id} AND tag = {old} AND {condition}")
            }
        }
    }

    /// Adds the values of the columns that a write sets.
    fn columns(&mut self, row: &'a Row, body: &'a [u8]) -> [String; 4] {
        [
            self.add(row.private, Type::BOOL),
            self.add(&row.tag[..], Type::BYTEA),
            self.add(encode(&row.index_keys), Type::BYTEA),
            self.add(body, Type::BYTEA),
        ]
    }
}

/// Runs a write. Returns whether the row was the expected one.
pub(super) async fn apply(client: &Client, serial: &str, write: &Write<'_>) -> Outcome<bool> {
    let mut values = Values::new(&serial);
    let sql = values.statement(write, "true");
    Ok(execute(client, &sql, &values.borrow()).await? != 0)
}

/// Replaces a PIN record if it is `old`, or in any case if `old` is `None`. Returns the state
/// before; `None` if the record is another one.
pub(super) async fn set_pin(
    client: &Client,
    serial: &str,
    role: Role,
    (old, record): (Option<&[u8]>, &[u8]),
    summarise: &dyn Fn(&Snapshot) -> crate::error::Result<Vec<u8>>,
) -> Outcome<Option<Change>> {
    let sql = match role {
        Role::SecurityOfficer => {
            "UPDATE token SET so_pin = $2, so_failures = 0
             WHERE serial = $1 AND so_pin = coalesce($3, so_pin)"
        }
        Role::User => {
            "UPDATE token SET user_pin = $2, user_failures = 0
             WHERE serial = $1 AND user_pin = coalesce($3, user_pin)"
        }
    };
    let values: [Value<'_>; 3] = [(&serial, Type::TEXT), (&record, Type::BYTEA), (&old, Type::BYTEA)];
    let (before, replaced) = try_join(begin(client, serial), execute(client, sql, &values)).await?;
    if replaced == 0 {
        client.batch_execute("ROLLBACK").await?;
        return Ok(None);
    }
    let summary = summarise(&before).map_err(Fault::Refused)?;
    conclude(client, serial, before.change.next(), &summary).await?;
    Ok(Some(before.change))
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

/// Rewrites all records. Returns the state before.
pub(super) async fn rewrite(client: &Client, serial: &str, rewriter: &mut dyn Rewriter) -> Outcome<Change> {
    let before = begin(client, serial).await?;
    let sql = "SELECT id, private, tag, names, body FROM object
               WHERE serial = $1 AND id > $2 ORDER BY id LIMIT $3";
    let mut last = i64::MIN;
    loop {
        let values: [Value<'_>; 3] = [(&serial, Type::TEXT), (&last, Type::INT8), (&BATCH, Type::INT8)];
        let batch = client.query_typed(sql, &values).await?;
        let mut changed = Vec::new();
        for columns in &batch {
            let row = rows::row(columns)?;
            last = row.id;
            let tag = row.tag;
            if let Some((row, body)) = rewriter.record(row, columns.try_get(4)?).map_err(Fault::Refused)? {
                changed.push((tag, row, body));
            }
        }
        let writes: Vec<_> = changed.iter().map(|(tag, row, body)| Write::Replace(*tag, row, body)).collect();
        try_join_all(writes.iter().map(|write| apply(client, serial, write))).await?;
        if batch.is_empty() {
            break;
        }
    }
    let after = rewriter.finish(&before).map_err(Fault::Refused)?;
    if let Some(pins) = &after.pins {
        let sql = "UPDATE token SET so_pin = $2, user_pin = $3, so_failures = 0, user_failures = 0
                   WHERE serial = $1 AND so_pin = $4 AND user_pin = $5";
        let (so, user) = (&pins.so, &pins.user);
        let values: [Value<'_>; 5] = [
            (&serial, Type::TEXT),
            (&so.1, Type::BYTEA),
            (&user.1, Type::BYTEA),
            (&so.0, Type::BYTEA),
            (&user.0, Type::BYTEA),
        ];
        if execute(client, sql, &values).await? == 0 {
            // Another process has set another PIN in the meantime.
            return Err(Fault::Refused(Error::PinIncorrect));
        }
    }
    conclude(client, serial, after.change, &after.summary).await?;
    Ok(before.change)
}
