//! The tables. An administrator creates them, or the first process that may do so.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tracing::error;

use super::failure::{Fault, Outcome};
use crate::error::Error;

/// The statements that upgrade the tables: the first from format 1 to 2, and so on. [`TABLES`] has
/// the format after the last of them. Hosts of the older version must be stopped first.
const UPGRADES: [&str; 0] = [];

/// The statements that create the tables. The file is with the documentation, for
/// administrators who make the tables themselves.
pub(super) const TABLES: &str = include_str!("../../../docs/postgresql.sql");

/// The lock that is held while the tables are created or upgraded.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(7234567812345678)";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// They do not exist.
    Missing,
    /// They have the format of this version.
    Current,
    /// They have the format of an earlier version.
    Older,
}

/// Looks for the tables. Fails if they belong to a later version.
pub(super) async fn look(client: &Client) -> Outcome<Tables> {
    match client.query_typed_opt("SELECT version FROM format", &[]).await {
        Ok(row) => {
            let found = row.map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
            let steps = steps(found, &UPGRADES).map_err(refuse)?;
            Ok(if steps.is_empty() { Tables::Current } else { Tables::Older })
        }
        Err(reason) if reason.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(Tables::Missing),
        Err(reason) => Err(reason.into()),
    }
}

/// Upgrades the tables, unless another process was faster.
pub(super) async fn upgrade(client: &Client) -> Outcome<()> {
    client.batch_execute("BEGIN").await?;
    client.batch_execute(LOCK).await?;
    let found = client.query_typed_one("SELECT version FROM format", &[]).await?;
    for step in steps(found.try_get(0)?, &UPGRADES).map_err(refuse)? {
        client.batch_execute(step).await?;
        client.batch_execute("UPDATE format SET version = version + 1").await?;
    }
    Ok(client.batch_execute("COMMIT").await?)
}

/// Returns the statements that upgrade tables of this format; none if it is the current one. Fails
/// with a text for the administrator if this version does not know the format.
fn steps<'a>(found: i32, upgrades: &'a [&'a str]) -> Result<&'a [&'a str], String> {
    let newest = upgrades.len() + 1;
    match usize::try_from(found) {
        Ok(found @ 1..) if found <= newest => Ok(&upgrades[found - 1..]),
        Ok(found @ 1..) => Err(format!(
            "the tables have format {found}, which a later version of Jeton made; this version knows formats up \
             to {newest}: install the later version on this host"
        )),
        _ => Err(format!("the table \"format\" has the number {found}, which no version of Jeton writes")),
    }
}

fn refuse(reason: String) -> Fault {
    error!("database refused: {reason}");
    Fault::Refused(Error::DeviceError)
}

/// Creates the schema and the tables, unless another process was faster.
pub(super) async fn create(client: &Client, schema: &str) -> Outcome<()> {
    client.batch_execute("BEGIN").await?;
    client.batch_execute(LOCK).await?;
    let found =
        client.query_typed_one(&format!("SELECT to_regclass('{schema}.format') IS NULL"), &[]).await?;
    if found.try_get(0)? {
        let script =
            format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path = {schema}; {TABLES}");
        if let Err(reason) = client.batch_execute(&script).await {
            error!("the tables cannot be created; docs/postgresql.md shows how an administrator does it");
            return Err(reason.into());
        }
    }
    Ok(client.batch_execute("COMMIT").await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_format_after_the_last_upgrade() {
        let newest = UPGRADES.len() + 1;
        assert!(TABLES.contains(&format!("INSERT INTO format VALUES ({newest});")));
        assert_eq!(steps(i32::try_from(newest).expect("a small number"), &UPGRADES), Ok(&[][..]));
    }

    #[test]
    fn older_tables_are_upgraded_step_by_step_and_newer_ones_refused() {
        let upgrades = ["from 1 to 2", "from 2 to 3"];
        assert_eq!(steps(1, &upgrades), Ok(&upgrades[..]));
        assert_eq!(steps(2, &upgrades), Ok(&upgrades[1..]));
        assert_eq!(steps(3, &upgrades), Ok(&[][..]));
        assert!(steps(4, &upgrades).is_err_and(|reason| reason.contains("install the later version")));
        for unknown in [0, -1, i32::MIN] {
            assert!(steps(unknown, &upgrades).is_err_and(|reason| reason.contains("no version")));
        }
    }
}
