//! Moves tokens between the database and files.
//!
//! All moves of the database take the same lock. Without it, a process could look for the result of
//! a move while the server still commits this move for a process that was killed.

use std::path::Path;
use std::pin::pin;

use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::error;

use super::failure::{Fault, Outcome};
use super::rows;
use super::transaction::{apply, execute, insert_header, read_header};
use crate::error::Error;
use crate::store::Write;
use crate::store::fingerprint::{Content, Fingerprint};
use crate::store::sqlite::detached::Detached;

/// Begins a transaction that moves a token. The server waits up to 60 seconds for the next
/// statement, because the client may write a file in between.
const BEGIN: &str =
    "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '60s';
    SELECT pg_catalog.pg_advisory_xact_lock(7234567812345679)";

/// Adds the token of a file.
pub(super) async fn receive(
    client: &Client,
    file: &Detached,
    ready: &mut dyn FnMut() -> crate::error::Result<()>,
) -> Outcome<()> {
    let header = file.header_with_summary().map_err(Fault::Refused)?;
    client.batch_execute(BEGIN).await?;
    insert_header(client, &header).await?;
    let mut last = i64::MIN;
    loop {
        let batch = file.objects_after(last).map_err(Fault::Refused)?;
        let Some((row, _)) = batch.last() else { break };
        last = row.id;
        let writes: Vec<_> = batch.iter().map(|(row, record)| Write::Insert(row, record)).collect();
        try_join_all(writes.iter().map(|write| apply(client, &header.serial, write))).await?;
    }
    let added = content(client, &header.serial, None).await?;
    expect_same(added, file.content().map_err(Fault::Refused)?)?;
    ready().map_err(Fault::Refused)?;
    Ok(client.batch_execute("COMMIT").await?)
}

/// Removes a token, after it was written into the empty file at `path`.
pub(super) async fn release(
    client: &Client,
    serial: &str,
    path: &Path,
    ready: &mut dyn FnMut() -> crate::error::Result<()>,
) -> Outcome<()> {
    client.batch_execute(BEGIN).await?;
    // The lock of the row, as for a commit.
    let lock = "SELECT FROM token WHERE serial = $1 FOR UPDATE";
    if execute(client, lock, &[(&serial, Type::TEXT)]).await? == 0 {
        return Err(Fault::Refused(Error::DeviceRemoved));
    }
    let file = Detached::create(path, &read_header(client, serial).await?).map_err(Fault::Refused)?;
    let removed = content(client, serial, Some(&file)).await?;
    file.complete().map_err(Fault::Refused)?;
    let written = Detached::open(path).and_then(|file| file.content());
    expect_same(removed, written.map_err(Fault::Refused)?)?;
    ready().map_err(Fault::Refused)?;
    remove(client, serial).await?;
    Ok(client.batch_execute("COMMIT").await?)
}

/// Returns whether there is a token with this serial number.
pub(super) async fn has(client: &Client, serial: &str) -> Outcome<bool> {
    client.batch_execute(BEGIN).await?;
    let sql = "SELECT FROM token WHERE serial = $1";
    let found = client.query_typed_opt(sql, &[(&serial, Type::TEXT)]).await?;
    client.batch_execute("ROLLBACK").await?;
    Ok(found.is_some())
}

/// Removes a token with its objects.
pub(super) async fn remove(client: &Client, serial: &str) -> Outcome<()> {
    match execute(client, "DELETE FROM token WHERE serial = $1", &[(&serial, Type::TEXT)]).await? {
        0 => Err(Fault::Refused(Error::DeviceRemoved)),
        _ => Ok(()),
    }
}

/// Reads a token with all its objects. Copies the objects into a file, if there is one.
async fn content(client: &Client, serial: &str, copy: Option<&Detached>) -> Outcome<Content> {
    let mut fingerprint = Fingerprint::new(&read_header(client, serial).await?);
    let sql = "SELECT id, private, tag, names, body FROM object WHERE serial = $1 ORDER BY id";
    let mut objects = pin!(client.query_typed_raw(sql, [(&serial, Type::TEXT)]).await?);
    while let Some(columns) = objects.try_next().await? {
        let (row, record): (_, &[u8]) = (rows::row(&columns)?, columns.try_get(4)?);
        fingerprint.object(&row, record);
        copy.map_or(Ok(()), |copy| copy.insert(&row, record)).map_err(Fault::Refused)?;
    }
    Ok(fingerprint.finish())
}

fn expect_same(one: Content, other: Content) -> Outcome<()> {
    if one == other {
        return Ok(());
    }
    error!("the copy of the token differs from the token");
    Err(Fault::Refused(Error::DeviceError))
}
