//! The store in a PostgreSQL database, which several hosts share. A process has one connection to
//! the server, for all its tokens.
//!
//! - A commit locks the row of its token, so that commits follow each other ([`transaction`]).
//! - A search and a change ask the server for the change number. The use of a key does not wait for
//!   the server: it reads the answer to an earlier question ([`Link::ask_without_wait`]).
//! - PIN attempts are counted by one statement ([`attempt`]).
//! - A call waits for the server for a limited time. After a failure the next connection is tried
//!   after a pause ([`link`]).
//!
//! There is no thread: the client library runs in the thread of the caller.

mod attempt;
mod connect;
mod failure;
mod link;
mod outage;
mod rows;
mod schema;
mod stored;
mod tls;
mod transaction;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use tracing::info;

use self::failure::Outcome;
use self::link::Link;
use self::outage::Outage;
use self::rows::HEADER;
use self::stored::DatabaseStore;
use super::{Header, Store, TokenServer};
use crate::config::DatabaseRules;
use crate::error::{Error, Result};

/// The number of times that a transaction is tried again after a conflict with another one.
const RETRIES: usize = 5;

/// The database of a module.
pub(super) struct Database {
    link: Mutex<Link>,
    outage: Arc<Outage>,
}

impl Database {
    /// Connects to the server, and creates the tables if they are missing.
    pub(super) fn connect(rules: &DatabaseRules) -> Result<Arc<Self>> {
        let outage = Arc::new(Outage::new(rules.outage));
        let link = Link::new(rules, &outage).map_err(|reason| reason.log("connect"))?;
        let database = Self { link: Mutex::new(link), outage };
        let schema = &rules.schema;
        if database.run("look for the tables", schema::is_missing)? {
            info!(schema, "creating the tables of the tokens");
            database.run("create the tables", async |client| schema::create(client, schema).await)?;
        }
        Ok(Arc::new(database))
    }

    /// Does `work` on the server, once or more: again after a conflict with another transaction.
    fn run<T>(&self, what: &str, mut work: impl AsyncFnMut(&Client) -> Outcome<T>) -> Result<T> {
        let again = async |client: &Client| {
            for _ in 0..RETRIES {
                match attempt_work(client, &mut work).await {
                    Err(reason) if reason.is_conflict() => {}
                    outcome => return outcome,
                }
            }
            attempt_work(client, &mut work).await
        };
        self.link().run(again).map_err(|reason| reason.log(what))
    }

    /// Does `work` on the server, once.
    fn run_once<T>(&self, what: &str, mut work: impl AsyncFnMut(&Client) -> Outcome<T>) -> Result<T> {
        let once = async |client: &Client| attempt_work(client, &mut work).await;
        self.link().run(once).map_err(|reason| reason.log(what))
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does `work`. If it fails, rolls back the transaction that it may have begun.
async fn attempt_work<T>(client: &Client, work: &mut impl AsyncFnMut(&Client) -> Outcome<T>) -> Outcome<T> {
    let outcome = work(client).await;
    if outcome.as_ref().is_err_and(|reason| !reason.is_lost()) {
        // Without a transaction the server only warns.
        client.batch_execute("ROLLBACK").await?;
    }
    outcome
}

impl TokenServer for Database {
    fn headers(&self) -> Result<Vec<Header>> {
        let sql = format!("{HEADER} ORDER BY serial");
        self.run("list the tokens", async |client| {
            client.query_typed(&sql, &[]).await?.iter().map(rows::header).collect()
        })
    }

    fn open(self: Arc<Self>, serial: &str) -> Box<dyn Store> {
        Box::new(DatabaseStore::new(self, serial))
    }

    fn create(&self, header: &Header) -> Result<()> {
        let slot = i64::try_from(header.slot).map_err(|_| Error::GeneralError)?;
        let label = &header.label[..];
        let failures = [header.so.failures, header.user.failures].map(i64::from);
        let values: [(&(dyn ToSql + Sync), Type); 9] = [
            (&header.serial, Type::TEXT),
            (&slot, Type::INT8),
            (&label, Type::BYTEA),
            (&header.so.record, Type::BYTEA),
            (&failures[0], Type::INT8),
            (&header.user.record, Type::BYTEA),
            (&failures[1], Type::INT8),
            (&header.change.0, Type::INT8),
            (&header.summary, Type::BYTEA),
        ];
        let sql = "INSERT INTO token VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.run("create a token", async |client| transaction::execute(client, sql, &values).await.map(drop))
    }
}
