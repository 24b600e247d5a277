//! Examines the server for `jeton doctor`: the durability of its commits, the rights of the role of
//! the host, and the rows and records of tokens.

use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::failure::Outcome;
use super::rows;
use super::transaction::read_header;
use crate::store::seal::inspection::Inspector;
use crate::store::{Inspection, Remark, ServerState};

/// The rights that a host needs, as a list of SQL values.
const RIGHTS: &str = "('format', 'SELECT'),
    ('token', 'SELECT'), ('token', 'INSERT'), ('token', 'UPDATE'), ('token', 'DELETE'),
    ('object', 'SELECT'), ('object', 'INSERT'), ('object', 'UPDATE'), ('object', 'DELETE'),
    ('attempt', 'SELECT'), ('attempt', 'INSERT'), ('attempt', 'UPDATE'), ('attempt', 'DELETE')";

/// Examines the server. The connection itself is checked when it is opened. `hosts` is the number
/// of hosts in the address.
pub(super) async fn examine(client: &Client, hosts: usize) -> Outcome<ServerState> {
    let sql = "SELECT current_setting('server_version'), session_user::text,
                   (SELECT rolsuper FROM pg_roles WHERE rolname = session_user),
                   coalesce(current_setting('fsync', true), 'on') = 'on'
                       AND coalesce(current_setting('full_page_writes', true), 'on') = 'on',
                   coalesce(current_setting('synchronous_standby_names', true), ''),
                   coalesce((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()), ''),
                   current_setting('synchronous_commit')";
    let facts = client.query_typed_one(sql, &[]).await?;
    let text = |column: usize| facts.try_get::<_, String>(column);
    let (version, role, standbys, tls) = (text(0)?, text(1)?, text(4)?, text(5)?);
    let mut remarks = Vec::new();
    if facts.try_get(2)? {
        remarks.push(Remark {
            check: "database-rights",
            problem: format!(
                "the role {role} of this host is a superuser: it can change the server and its files"
            ),
            remedy: "another role in store.url, with the rights of docs/postgresql.md".to_owned(),
        });
    }
    remarks.extend(missing_rights(client, &role).await?);
    if !facts.try_get::<_, bool>(3)? {
        remarks.push(Remark {
            check: "database-durability",
            problem: "fsync or full_page_writes is off: a crash of the server loses changes".to_owned(),
            remedy: "fsync = on and full_page_writes = on in postgresql.conf".to_owned(),
        });
    }
    if hosts > 1 && standbys.is_empty() {
        remarks.push(Remark {
            check: "database-standby",
            problem: "store.url names several hosts, but the server waits for no standby: a failover may lose changes"
                .to_owned(),
            remedy: "synchronous_standby_names in postgresql.conf".to_owned(),
        });
    }
    let tls = if tls.is_empty() { "no TLS" } else { &tls };
    let description = format!("PostgreSQL {version}, role {role}, {tls}, synchronous_commit = {}", text(6)?);
    Ok(ServerState { description, remarks })
}

/// Returns a remark if the role lacks rights on the tables.
async fn missing_rights(client: &Client, role: &str) -> Outcome<Option<Remark>> {
    let sql = format!(
        "SELECT name, string_agg(action, ', ')
         FROM (VALUES {RIGHTS}) AS needed (name, action)
         WHERE NOT has_table_privilege(name, action) GROUP BY name ORDER BY name"
    );
    let missing = client.query_typed(&sql, &[]).await?;
    let grant = |row: &Row| -> Outcome<String> {
        let (table, actions): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        Ok(format!("GRANT {actions} ON {table} TO {role}"))
    };
    let grants = missing.iter().map(grant).collect::<Outcome<Vec<_>>>()?;
    Ok((!grants.is_empty()).then(|| Remark {
        check: "database-rights",
        problem: format!("the role {role} lacks rights on the tables"),
        remedy: format!("in the schema of the tables: {}", grants.join("; ")),
    }))
}

/// Looks for damage of a token that can be seen without a PIN.
pub(super) async fn inspect(client: &Client, serial: &str) -> Outcome<Inspection> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let header = read_header(client, serial).await?;
    let mut inspector = Inspector::new(&header, None, Vec::new());
    let sql = "SELECT id, private, tag, names, body FROM object WHERE serial = $1 ORDER BY id";
    let mut objects = pin!(client.query_typed_raw(sql, [(&serial, Type::TEXT)]).await?);
    while let Some(columns) = objects.try_next().await? {
        inspector.object(&rows::row(&columns)?, Some(columns.try_get(4)?));
    }
    client.batch_execute("COMMIT").await?;
    Ok(inspector.finish(&header.summary))
}
