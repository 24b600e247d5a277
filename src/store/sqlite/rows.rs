//! Converts rows of SQLite to the types of the store.

use rusqlite::{Connection, OptionalExtension, ffi};

use super::{FORMAT, OLDEST};
use crate::store::seal::index::{LONGEST_KEYS, decode};
use crate::store::seal::record::LONGEST_RECORD;
use crate::store::{Change, Header, PinState, Row, Snapshot};

/// The summary of the token; empty if it is longer than any that Jeton writes.
const SUMMARY: &str = "iif(octet_length(summary) > 16384, x'', summary)";
/// The record of an object; empty if it is longer than any that Jeton writes, so that the object is
/// left out as an altered one.
pub(super) const BODY: &str = "iif(octet_length(body) > 64 << 20, x'', body)";
const _: () = assert!(LONGEST_RECORD == 64 << 20, "the number in BODY");

/// Reads the header; `None` if the file has no token. If this version of Jeton does not know the
/// format of the file, returns the number of the format as the error.
pub(super) fn read_header(connection: &Connection) -> rusqlite::Result<Result<Option<Header>, i64>> {
    let known: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if !(OLDEST..=FORMAT).contains(&known) {
        return Ok(Err(known));
    }
    let mut statement = connection.prepare_cached(
        "SELECT serial, slot, label, so_pin, so_failures, user_pin, user_failures, change FROM token
         WHERE one = 1 AND octet_length(serial) + octet_length(label) < 1000
         AND octet_length(so_pin) + octet_length(user_pin) < 100000",
    )?;
    statement.query_row([], header_row).optional().map(Ok)
}

/// Reads the header, without its summary, from a row of the table `token`.
fn header_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Header> {
    Ok(Header {
        serial: row.get(0)?,
        slot: row.get::<_, i64>(1)?.unsigned_abs(),
        label: row.get(2)?,
        so: PinState { record: row.get(3)?, failures: row.get(4)? },
        user: PinState { record: row.get(5)?, failures: row.get(6)? },
        change: Change(row.get(7)?),
        summary: Vec::new(),
    })
}

pub(super) fn change(connection: &Connection) -> rusqlite::Result<Change> {
    connection.prepare_cached("SELECT change FROM token")?.query_row([], |row| row.get(0)).map(Change)
}

/// Returns the change number and the summary that belongs to it.
pub(super) fn snapshot(connection: &Connection) -> rusqlite::Result<Snapshot> {
    let mut statement = connection.prepare_cached(&format!("SELECT change, {SUMMARY} FROM token"))?;
    statement.query_row([], |row| Ok(Snapshot { change: Change(row.get(0)?), summary: row.get(1)? }))
}

/// Reads the row of an object from the columns `id`, `private`, `tag` and `names`.
pub(super) fn object(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let names = row.get_ref(3)?.as_blob()?;
    if names.len() > LONGEST_KEYS {
        return Err(damaged("an object has more index keys than there are indexed attributes"));
    }
    let index_keys = decode(names);
    Ok(Row { id: row.get(0)?, private: row.get(1)?, tag: row.get(2)?, index_keys })
}

/// Calls `each` with every row, in order of their numbers. The pages of a malformed file can have
/// the same children many times, and then the rows never end. So rows that are out of order are an
/// error.
pub(super) fn load_rows(connection: &Connection, each: &mut dyn FnMut(Row)) -> rusqlite::Result<()> {
    let mut rows = connection.prepare_cached("SELECT id, private, tag, names FROM object ORDER BY id")?;
    let (mut rows, mut last) = (rows.query([])?, None);
    while let Some(row) = rows.next()? {
        let row = object(row)?;
        if last.replace(row.id) >= Some(row.id) {
            return Err(damaged("the objects are out of order"));
        }
        each(row);
    }
    Ok(())
}

/// Returns the record of an object; `None` if there is no such object.
pub(super) fn record(connection: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {BODY} FROM record WHERE id = ?1"))?;
    statement.query_row([id], |row| row.get(0)).optional()
}

fn damaged(what: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what.to_owned()))
}
