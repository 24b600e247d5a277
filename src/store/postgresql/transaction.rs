//! Transactions that change a token.
//!
//! The first statement of each locks the row of the token until the end. So the commits of all
//! hosts follow each other, and each sees the state that the one before it left. A commit takes two
//! round trips, because the summary of the new state depends on what the first one finds. A change
//! of an object that another host has changed meanwhile takes two more.

use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::{try_join, try_join_all};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::failure::{Fault, Outcome};
use super::rows::{self, HEADER};
use crate::error::Error;
use crate::store::index::encode;
use crate::store::{Again, Change, Committed, Header, Rewrite, Rewriter, Role, Snapshot, Summarise, Write};

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

/// Runs the writes of a commit, and writes the state that follows.
pub(super) async fn commit(
    client: &Client,
    serial: &str,
    writes: &[Write<'_>],
    summarise: &Summarise<'_>,
) -> Outcome<Committed> {
    let applied = try_join_all(writes.iter().map(|write| apply(client, serial, write)));
    // The requests are sent in this order, without a wait between them.
    let (before, applied) = try_join(begin(client, serial), applied).await?;
    let summary = summarise(&before, &applied).map_err(Fault::Refused)?;
    conclude(client, serial, before.change.next(), &summary).await?;
    Ok(Committed { before: before.change, applied })
}

/// Runs the write of one object, and writes the state that follows. If the row is not the expected
/// one, runs the write that `again` makes from the current rows.
pub(super) async fn commit_one(
    client: &Client,
    serial: &str,
    write: &Write<'_>,
    summarise: &Summarise<'_>,
    again: &mut dyn Again,
) -> Outcome<Committed> {
    let (before, applied) = try_join(begin(client, serial), apply(client, serial, write)).await?;
    let change = before.change;
    let summary = if applied {
        summarise(&before, &[true]).map_err(Fault::Refused)?
    } else {
        // No other host can write until the end of this transaction. So the write is made again
        // once, however often other hosts change the object.
        again.begin(before).map_err(Fault::Refused)?;
        repeat(client, serial, write.id(), again).await?
    };
    conclude(client, serial, change.next(), &summary).await?;
    Ok(Committed { before: change, applied: vec![true] })
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

/// Runs a write. Returns whether the row was the expected one.
pub(super) async fn apply(client: &Client, serial: &str, write: &Write<'_>) -> Outcome<bool> {
    let touched = match write {
        Write::Insert(row, body) => {
            let (tag, names) = (&row.tag[..], encode(&row.index_keys));
            let sql = "INSERT INTO object VALUES ($1, $2, $3, $4, $5, $6)";
            let values: [Value<'_>; 6] = [
                (&serial, Type::TEXT),
                (&row.id, Type::INT8),
                (&row.private, Type::BOOL),
                (&tag, Type::BYTEA),
                (&names, Type::BYTEA),
                (body, Type::BYTEA),
            ];
            execute(client, sql, &values).await?
        }
        Write::Replace(old, row, body) => {
            let (old, tag, names) = (&old[..], &row.tag[..], encode(&row.index_keys));
            let sql = "UPDATE object SET private = $3, tag = $4, names = $5, body = $6
                       WHERE serial = $1 AND id = $2 AND tag = $7";
            let values: [Value<'_>; 7] = [
                (&serial, Type::TEXT),
                (&row.id, Type::INT8),
                (&row.private, Type::BOOL),
                (&tag, Type::BYTEA),
                (&names, Type::BYTEA),
                (body, Type::BYTEA),
                (&old, Type::BYTEA),
            ];
            execute(client, sql, &values).await?
        }
        Write::Delete(id, old) => {
            let old = &old[..];
            let sql = "DELETE FROM object WHERE serial = $1 AND id = $2 AND tag = $3";
            execute(client, sql, &[(&serial, Type::TEXT), (id, Type::INT8), (&old, Type::BYTEA)]).await?
        }
    };
    Ok(touched != 0)
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
