//! The tables. An administrator creates them, or the first process that may do so.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tracing::error;

use super::failure::{Fault, Outcome};
use crate::error::Error;

/// The version of the tables.
const FORMAT: i32 = 1;

/// The statements that create the tables. `docs/postgresql.md` has the same.
pub(super) const TABLES: &str = include_str!("schema.sql");

/// The lock that is held while the tables are created.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(7234567812345678)";

/// Returns whether the tables are missing. Fails if they belong to another version.
pub(super) async fn is_missing(client: &Client) -> Outcome<bool> {
    match client.query_typed_one("SELECT version FROM format", &[]).await {
        Ok(row) => match row.try_get(0)? {
            FORMAT => Ok(false),
            found => {
                let found: i32 = found;
                error!(found, known = FORMAT, "the tables in the database have an unknown format");
                Err(Fault::Refused(Error::DeviceError))
            }
        },
        Err(reason) if reason.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(true),
        Err(reason) => Err(reason.into()),
    }
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
    fn the_guide_has_the_statements_that_create_the_tables() {
        let guide = include_str!("../../../docs/postgresql.md");
        assert!(guide.contains(TABLES), "docs/postgresql.md and schema.sql differ");
    }
}
