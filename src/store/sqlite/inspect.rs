//! Looks for damage in a token's file: in SQLite's pages, in the rows and in the records.

use rusqlite::{Connection, OptionalExtension};

use super::rows::{BODY, object, read_header, snapshot};
use crate::store::Inspection;
use crate::store::seal::TokenKey;
use crate::store::seal::inspection::{Inspector, MOST};

/// The start of the answer in which SQLite lists the damage of pages.
const PAGES: &str = "*** in database main ***\n";

/// Reads all rows and records. The connection must see one state, as in a transaction.
pub(super) fn inspect(connection: &Connection, key: Option<&TokenKey>) -> rusqlite::Result<Inspection> {
    let mut damage = match structure(connection)? {
        Structure::Sound(damage) => damage,
        // If pages share their children, a hostile file of 100 KB can have more rows than anyone
        // can read.
        Structure::Broken(damage) => return Ok(Inspection { objects: 0, damage, outside_cnsa2: Vec::new() }),
    };
    let Ok(Some(header)) = read_header(connection)? else {
        damage.push("the file has no token, or one of an unknown format".to_owned());
        return Ok(Inspection { objects: 0, damage, outside_cnsa2: Vec::new() });
    };
    let orphans: i64 = connection.query_row(
        "SELECT count(*) FROM record WHERE id NOT IN (SELECT id FROM object)",
        [],
        |row| row.get(0),
    )?;
    if orphans > 0 {
        damage.push(format!("{orphans} records belong to no object"));
    }
    let mut inspector = Inspector::new(&header, key, damage);
    let mut statement = connection.prepare(&format!(
        "SELECT id, private, tag, names, {BODY} FROM object LEFT JOIN record USING (id)"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let body: Option<Vec<u8>> = row.get(4)?;
        inspector.object(&object(row)?, body.as_deref());
    }
    let summary = snapshot(connection).optional()?.map(|snapshot| snapshot.summary);
    Ok(inspector.finish(&summary.unwrap_or_default()))
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
