//! The fuzz target of the readers of `jeton migrate`. The input alters a store that another program
//! made. The first value of the input selects the format.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::source::Source;

/// The user's PIN of the stores. The database of NSS has none.
const PIN: &[u8] = b"87654321";

/// A database, and the columns that are altered, each with its table.
struct Database {
    name: &'static str,
    content: &'static [u8],
    columns: &'static [(&'static str, &'static str)],
}

const SOFTHSM_TOKEN: &[u8] = include_bytes!("../samples/softhsm/token.object");
const SOFTHSM_OBJECTS: [&[u8]; 2] =
    [include_bytes!("../samples/softhsm/private.object"), include_bytes!("../samples/softhsm/public.object")];

const SOFTHSM: Database = Database {
    name: "sqlite3.db",
    content: include_bytes!("../samples/softhsm/sqlite3.db"),
    columns: &[
        ("attribute_boolean", "value"),
        ("attribute_integer", "value"),
        ("attribute_binary", "value"),
        ("attribute_array", "value"),
        ("attribute_binary", "type"),
        ("attribute_binary", "object_id"),
    ],
};

const NSS_KEYS: Database = Database {
    name: "key4.db",
    content: include_bytes!("../samples/nss/key4.db"),
    columns: &[
        ("metaData", "item1"),
        ("metaData", "item2"),
        ("metaData", "id"),
        ("nssPrivate", "a11"),
        ("nssPrivate", "a100"),
        ("nssPrivate", "a2"),
        ("nssPrivate", "id"),
    ],
};

const NSS_CERTIFICATES: Database = Database {
    name: "cert9.db",
    content: include_bytes!("../samples/nss/cert9.db"),
    columns: &[("nssPublic", "a11"), ("nssPublic", "a0"), ("nssPublic", "ace536358"), ("nssPublic", "id")],
};

const KRYOPTIC: Database = Database {
    name: "token.sql",
    content: include_bytes!("../samples/kryoptic/token.sql"),
    columns: &[
        ("meta", "data"),
        ("meta", "value"),
        ("meta", "name"),
        ("objects", "val"),
        ("objects", "val"),
        ("objects", "attr"),
        ("objects", "id"),
    ],
};

thread_local! {
    static DIRECTORY: RefCell<TempDir> = RefCell::new(tempfile::tempdir().expect("a directory"));
}

/// Writes a store, alters it, and reads it.
pub fn read(bytes: &[u8]) {
    DIRECTORY.with_borrow(|directory| {
        let directory = directory.path();
        for entry in fs::read_dir(directory).expect("a directory") {
            let _ = fs::remove_file(entry.expect("an entry").path());
        }
        let mut source = Source::new(bytes);
        let store = match source.below(4) {
            0 => object_files(directory, &mut source),
            1 => databases(directory, &[SOFTHSM], &mut source),
            2 => databases(directory, &[NSS_KEYS, NSS_CERTIFICATES], &mut source),
            _ => databases(directory, &[KRYOPTIC], &mut source).join(KRYOPTIC.name),
        };
        let Ok(tokens) = jeton_migrate::tokens(&store) else { return };
        for token in tokens {
            let pin = if token.serial.is_empty() { b"" } else { PIN };
            drop(token.read(pin));
        }
    });
}

fn object_files(directory: &Path, source: &mut Source<'_>) -> PathBuf {
    let token = if source.once_in(4) { spliced(SOFTHSM_TOKEN, source) } else { SOFTHSM_TOKEN.to_vec() };
    fs::write(directory.join("token.object"), token).expect("a file");
    let object = source.one(&SOFTHSM_OBJECTS);
    fs::write(directory.join("1.object"), spliced(object, source)).expect("a file");
    directory.to_owned()
}

fn databases(directory: &Path, databases: &[Database], source: &mut Source<'_>) -> PathBuf {
    for database in databases {
        let path = directory.join(database.name);
        let pages = source.once_in(4);
        let content = if pages { spliced(database.content, source) } else { database.content.to_vec() };
        fs::write(&path, content).expect("a file");
        if !pages {
            alter(&path, database, source);
        }
    }
    directory.to_owned()
}

/// Replaces up to four parts of a file or of a value.
pub(crate) fn spliced(content: &[u8], source: &mut Source<'_>) -> Vec<u8> {
    let mut content = content.to_vec();
    for _ in 0..4 {
        if source.is_empty() || content.is_empty() {
            break;
        }
        let (at, new) = (source.below(content.len()), source.bytes());
        let removed = if source.once_in(4) { source.below(64) } else { new.len() };
        let end = content.len().min(at + removed);
        content.splice(at..end, new);
    }
    content
}

/// Replaces up to four values of a database. If SQLite refuses a change, the next one may succeed.
fn alter(path: &Path, database: &Database, source: &mut Source<'_>) {
    let Ok(connection) = Connection::open(path) else { return };
    // The readers refuse a store with a journal, so none is written.
    let _ = connection.pragma_update(None, "journal_mode", "OFF");
    let _ = connection.pragma_update(None, "synchronous", "OFF");
    for _ in 0..4 {
        if source.is_empty() {
            return;
        }
        let ((table, column), at) = (source.one(database.columns), source.below(256) as i64);
        let row = format!("SELECT rowid FROM {table} WHERE {column} IS NOT NULL LIMIT 1 OFFSET ?1");
        let Ok(row) = connection.query_row(&row, [at], |row| row.get::<_, i64>(0)) else { continue };
        let old = format!("SELECT {column} FROM {table} WHERE rowid = ?1");
        let Ok(old) = connection.query_row(&old, [row], |row| row.get::<_, Value>(0)) else { continue };
        let new = match (old, source.below(6)) {
            (Value::Blob(old), 0..4) => Value::Blob(spliced(&old, source)),
            (_, 0) => Value::Null,
            (_, 1) => Value::Text(String::from_utf8_lossy(&source.bytes()).into_owned()),
            (_, 2) => Value::Real(source.number() as f64),
            (_, 3) => Value::Blob(source.bytes()),
            _ => Value::Integer(source.number() as i64),
        };
        let change = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
        let _ = connection.execute(&change, params![new, row]);
    }
}
