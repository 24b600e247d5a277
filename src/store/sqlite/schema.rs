//! Checks that a token file has only our tables, and nothing that SQLite would run automatically.
//!
//! An attacker who can write to the file could add a trigger that resets each count of wrong PINs,
//! or deletes each new row. So the schema is compared with ours, and every connection disables
//! triggers and views.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::store::fork;
use crate::store::seal::record::LONGEST_RECORD;

/// The settings of a connection to an untrusted file ("Defense Against The Dark Arts" of SQLite's
/// manual).
const SETTINGS: [(DbConfig, bool); 5] = [
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
];

pub(super) const SCHEMA: &str = "
    CREATE TABLE token(
        one INTEGER PRIMARY KEY CHECK (one = 1),
        serial TEXT NOT NULL,
        slot INTEGER NOT NULL,
        label BLOB NOT NULL,
        so_pin BLOB NOT NULL,
        so_failures INTEGER NOT NULL,
        user_pin BLOB NOT NULL,
        user_failures INTEGER NOT NULL,
        change INTEGER NOT NULL,
        summary BLOB NOT NULL
    ) STRICT;
    CREATE TABLE object(
        id INTEGER PRIMARY KEY,
        private INTEGER NOT NULL,
        tag BLOB NOT NULL,
        names BLOB NOT NULL
    ) STRICT;
    CREATE TABLE record(id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
";

/// The size of the page cache in KiB. Without this setting, a file could set the size for every
/// process that reads it.
const CACHE: i64 = 2000;
/// The limits before the schema is known to be ours: the bytes of a statement and of a value, and
/// the instructions of SQLite for a query. Our schema takes less than a tenth of them.
const UNVERIFIED: [i32; 3] = [4 << 10, 16 << 10, 2000];
/// The longest row that Jeton writes: a record and its number.
const LONGEST_ROW: i32 = LONGEST_RECORD as i32 + 1024;

/// Opens the file at `path`, which may be a URI, with the system calls of this crate. Until
/// [`lift_limits`], a file costs little time and memory, whatever its pages or its log contain.
pub(super) fn connect(path: impl AsRef<OsStr>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = open(path, flags)?;
    // This reads the schema.
    harden(&connection)?;
    Ok(connection)
}

/// Like [`connect`], for writes that no other process may see. Waits this long until no other
/// process has the file open; then no other process can open it.
pub(super) fn connect_alone(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(wait)?;
    // Before the first read: "Use of WAL Without Shared-Memory" of SQLite's manual. Then the first
    // read takes a lock that excludes the one of each other connection.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    harden(&connection)?;
    Ok(connection)
}

fn open(path: impl AsRef<OsStr>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    fork::prepare().map_err(|_| {
        let text = "SQLite refuses the system calls of this crate".to_owned();
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_MISUSE), Some(text))
    })?;
    let mut connection = Connection::open_with_flags(path.as_ref(), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let [statement, value, steps] = UNVERIFIED;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, statement)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, value)?;
    connection.progress_handler(steps, Some(|| true))?;
    Ok(connection)
}

/// Lets a connection whose schema is ours read and write the longest records and many rows. The
/// pages of a malformed value can have each other as the next one, so no longer value is read.
pub(super) fn lift_limits(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_ROW)?;
    connection.progress_handler(0, None::<fn() -> bool>)
}

/// Disables the features that a file could misuse. Called before anything is read.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    for (setting, on) in SETTINGS {
        connection.set_db_config(setting, on)?;
    }
    connection.pragma_update(None, "cell_size_check", "ON")?;
    connection.pragma_update(None, "cache_size", -CACHE)
}

/// Returns SQLite's version number of the schema. Every change of the schema increments it.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
}

/// Fails unless the file has exactly the tables of [`SCHEMA`].
pub(super) fn verify(connection: &Connection) -> rusqlite::Result<()> {
    let (mut missing, mut roots): (Vec<_>, _) = (statements().collect(), Vec::new());
    let mut statement = connection.prepare("SELECT type, name, rootpage, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let (root, sql): (i64, Option<String>) = (row.get(2)?, row.get(3)?);
        let sql = plain(&sql.unwrap_or_default());
        let known = missing.iter().position(|known| *known == sql && kind == "table");
        let Some(known) = known.filter(|_| sql.starts_with(&format!("CREATE TABLE {name}("))) else {
            return Err(differs(format!("{kind:?} {name:?} does not belong in a token file")));
        };
        if root < 2 || roots.contains(&root) {
            return Err(differs(format!("table {name:?} shares its pages")));
        }
        roots.push(root);
        missing.swap_remove(known);
    }
    match missing.first() {
        None => Ok(()),
        Some(table) => Err(differs(format!("a table of a token file is missing or differs: {table}"))),
    }
}

/// Returns the statements of [`SCHEMA`].
pub(super) fn statements() -> impl Iterator<Item = String> {
    SCHEMA.split(';').map(plain).filter(|sql| !sql.is_empty())
}

/// Returns a text with each run of white space replaced by one space.
pub(super) fn plain(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn differs(what: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_NOTADB), Some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_neither_parses_a_long_schema_nor_reads_all_of_it() {
        let default = |len: usize| format!("CREATE TABLE a(b DEFAULT '{}')", "c".repeat(len));
        let many = || (0..1000).map(|table| format!("CREATE TABLE a{table}(b);")).collect();
        for hostile in [default(5000), default(20_000), many()] {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("hostile");
            Connection::open(&path).and_then(|file| file.execute_batch(&hostile)).expect("a database");
            let outcome = connect(&path, OpenFlags::default()).and_then(|file| verify(&file));
            let code = outcome.expect_err("a limit").sqlite_error_code();
            assert_ne!(code, Some(rusqlite::ErrorCode::NotADatabase), "{:.30}", hostile);
        }
    }

    /// The settings are a second defence, because [`verify`] already refuses such a file.
    #[test]
    fn a_hardened_connection_runs_no_trigger_and_no_view() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(SCHEMA).expect("our tables");
        let planted = "CREATE TRIGGER planted AFTER INSERT ON record BEGIN DELETE FROM record; END;
                       CREATE VIEW other AS SELECT * FROM record";
        connection.execute_batch(planted).expect("a schema");
        harden(&connection).expect("the settings");
        connection.execute("INSERT INTO record VALUES(1, x'00')", []).expect("a row");
        let count = |table: &str| -> rusqlite::Result<i64> {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
        };
        assert_eq!(count("record"), Ok(1));
        assert!(count("other").is_err());
        connection.execute_batch("PRAGMA writable_schema = ON").expect("a pragma");
        assert!(connection.execute("DELETE FROM sqlite_schema", []).is_err());
    }
}
