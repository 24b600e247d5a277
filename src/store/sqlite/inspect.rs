//! Looks for damage in a token's file. Without the token key it finds the damage that is visible
//! without a PIN. With the token key it also finds altered records, and rows that were removed,
//! added or replaced by older ones.

use rusqlite::{Connection, OptionalExtension};

use super::rows::{index_keys, read_header};
use crate::store::seal::{self, Kind, TokenKey};
use crate::store::summary::Summary;
use crate::store::{Change, Header, Inspection, Row};

/// After this number of findings, further damaged objects are only counted.
const MOST: usize = 100;
/// The start of the answer in which SQLite lists the damage of pages.
const PAGES: &str = "*** in database main ***\n";

/// Reads all rows and records. The connection must see one state, as in a transaction.
pub(super) fn inspect(connection: &Connection, key: Option<&TokenKey>) -> rusqlite::Result<Inspection> {
    let mut damage = match structure(connection)? {
        Structure::Sound(damage) => damage,
        // If pages share their children, a hostile file of 100 KB can have more rows than anyone
        // can read.
        Structure::Broken(damage) => return Ok(Inspection { objects: 0, damage }),
    };
    let Ok(Some(header)) = read_header(connection)? else {
        damage.push("the file has no token, or one of an unknown format".to_owned());
        return Ok(Inspection { objects: 0, damage });
    };
    let pins = [("SO PIN", &header.so.record), ("user PIN", &header.user.record)];
    for (whose, record) in pins.into_iter().filter(|(_, record)| !record.is_empty()) {
        if seal::pin_cost(record).is_none() {
            damage.push(format!("the record of the {whose} is malformed"));
        }
    }
    let (mut objects, mut found, mut others) = (0, Summary::empty(Change(0)), 0);
    let mut statement =
        connection.prepare("SELECT id, private, tag, names, body FROM object LEFT JOIN record USING (id)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        objects += 1;
        let known =
            Row { id: row.get(0)?, private: row.get(1)?, tag: row.get(2)?, index_keys: index_keys(row)? };
        let body: Option<Vec<u8>> = row.get(4)?;
        if let Some(wrong) = wrong_with(&known, body.as_deref(), &header.serial, key) {
            if damage.len() < MOST {
                damage.push(format!("object {}: {wrong}", known.id));
            } else {
                others += 1;
            }
        }
        if let Some(key) = key {
            found.add(key.row_hasher().hash(&known));
        }
    }
    let orphans: i64 = connection.query_row(
        "SELECT count(*) FROM record WHERE id NOT IN (SELECT id FROM object)",
        [],
        |row| row.get(0),
    )?;
    if orphans > 0 {
        damage.push(format!("{orphans} records belong to no object"));
    }
    if let Some(key) = key {
        damage.extend(wrong_summary(connection, &header, key, &found)?);
    }
    if others > 0 {
        damage.push(format!("{others} more objects are damaged"));
    }
    Ok(Inspection { objects, damage })
}

/// The findings of SQLite.
enum Structure {
    /// The pages are intact. The findings are about rows.
    Sound(Vec<String>),
    /// The findings are about pages.
    Broken(Vec<String>),
}

/// Returns the findings of SQLite. It answers first with the damage of pages, and then with that of
/// rows. If pages are damaged, it reads no row.
fn structure(connection: &Connection) -> rusqlite::Result<Structure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MOST})"))?;
    let (mut answers, mut found) = (statement.query([])?, Vec::new());
    while let Some(answer) = answers.next()? {
        let answer: String = answer.get(0)?;
        if let Some(pages) = answer.strip_prefix(PAGES) {
            return Ok(Structure::Broken(pages.lines().map(str::to_owned).collect()));
        }
        if answer != "ok" {
            found.push(answer);
        }
    }
    Ok(Structure::Sound(found))
}

/// Returns the damage of one object.
fn wrong_with(row: &Row, body: Option<&[u8]>, serial: &str, key: Option<&TokenKey>) -> Option<&'static str> {
    let Some(body) = body else { return Some("its record is missing") };
    let Some(kind) = Kind::of(body) else { return Some("its record has an unknown format") };
    if seal::tag(body) != Some(row.tag) {
        return Some("its record is not the one that its row names");
    }
    if (kind == Kind::Private) != row.private {
        return Some("its row and its record differ in CKA_PRIVATE");
    }
    if kind != Kind::Private && seal::peek(body).is_none() {
        return Some("its public attributes are malformed");
    }
    if key.is_some_and(|key| key.open(serial, row.id, body).is_none()) {
        return Some("its record was altered");
    }
    None
}

fn wrong_summary(
    connection: &Connection,
    header: &Header,
    key: &TokenKey,
    found: &Summary,
) -> rusqlite::Result<Option<String>> {
    let sealed: Option<Vec<u8>> =
        connection.query_row("SELECT summary FROM token", [], |row| row.get(0)).optional()?;
    let known = sealed.and_then(|sealed| key.open_summary(&header.serial, header.change, &sealed));
    Ok(match known {
        None => Some("the summary of the objects was altered".to_owned()),
        Some(known) if known.differs(found) => {
            Some("objects were removed, added or replaced by older ones".to_owned())
        }
        Some(_) => None,
    })
}
