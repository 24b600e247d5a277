//! Opens SQLite databases of other programs read-only. Their content is not trusted.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::Error;

/// The largest number of bytes of a value, and of a row, in a database.
const MAX_VALUE: i32 = 16 << 20;

/// Opens a database and checks that it has these tables. No lock is taken and no file is written:
/// the file is opened as immutable. Fails if another program left a journal, because the database
/// file is incomplete without this journal.
pub(crate) fn open(path: &Path, tables: &[&str]) -> Result<Connection, Error> {
    for suffix in ["-journal", "-wal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        if std::fs::metadata(&name).is_ok_and(|journal| journal.len() > 0) {
            let reason =
                "a program uses this database, or was interrupted while it wrote (there is a journal). \
                          Close the program; if the journal stays, open the token once with its own tool"
                    .to_owned();
            return Err(Error::Unsupported { path: PathBuf::from(name), reason });
        }
    }
    let connection = connect(path).map_err(broken(path))?;
    check(path, &connection)?;
    for table in tables {
        let kind: Result<String, _> =
            connection.query_row("SELECT type FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0));
        // A view could compute without end.
        if kind.map_err(broken(path))? != "table" {
            return Err(Error::damaged(path, format!("{table} is not a table")));
        }
    }
    Ok(connection)
}

/// Returns whether a file begins with the header of an SQLite database.
pub(crate) fn is_database(path: &Path) -> Result<bool, Error> {
    const HEADER: &[u8; 16] = b"SQLite format 3\0";
    let mut start = Vec::new();
    let file = File::open(path).map_err(Error::io(path))?;
    file.take(HEADER.len() as u64).read_to_end(&mut start).map_err(Error::io(path))?;
    Ok(start == HEADER)
}

pub(crate) fn has_tables(path: &Path, connection: &Connection, tables: &[&str]) -> Result<bool, Error> {
    let text = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    for table in tables {
        let count: u32 = connection.query_row(text, [table], |row| row.get(0)).map_err(broken(path))?;
        if count == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a function for `map_err` that says that the database is damaged.
pub(crate) fn broken(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    move |error| match error {
        rusqlite::Error::QueryReturnedNoRows => Error::damaged(path, "a table or a row is missing"),
        error => Error::damaged(path, error.to_string()),
    }
}

/// Fails if pages are missing or damaged.
fn check(path: &Path, connection: &Connection) -> Result<(), Error> {
    let number =
        |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, u64>(0)).map_err(broken(path));
    let wanted = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
    let length = std::fs::metadata(path).map_err(Error::io(path))?.len();
    if length < wanted {
        return Err(Error::damaged(path, format!("it has {length} of {wanted} bytes")));
    }
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(broken(path))?;
    if found == "ok" { Ok(()) } else { Err(Error::damaged(path, found)) }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE;
    let connection = Connection::open_with_flags(uri(path), flags)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(connection)
}

/// Returns the URI of an immutable database.
fn uri(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    for byte in absolute.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?mode=ro&immutable=1"
}
