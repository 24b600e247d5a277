//! The store in a PostgreSQL database, which several hosts share. A process has one connection to
//! the server, for all its tokens.
//!
//! - A commit locks the row of its token, so that commits follow each other ([`transaction`]).
//! - A search and a change ask the server for the change number. The use of a key does not wait for
//!   the server: it reads the answer to an earlier question ([`Link::ask_without_wait`]). The
//!   server announces the commits of other hosts (`LISTEN`), so that a question follows at once.
//! - PIN attempts are counted by one statement ([`attempt`]).
//! - A call waits for the server for a limited time. After a failure the next connection is tried
//!   after a pause ([`connection`]).
//!
//! There is no thread: the client library runs in the thread of the caller.

mod attempt;
mod connect;
mod connection;
mod doctor;
mod failure;
mod message_limits;
mod notifications;
mod outage;
mod requests;
mod rows;
mod schema;
mod tls;
mod token_store;
mod transaction;
mod transfer;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::Client;
use tracing::info;

use self::connection::{Exchange, Link};
use self::failure::Outcome;
use self::outage::Outage;
use self::rows::HEADER;
use self::schema::Tables;
use self::token_store::DatabaseStore;
use super::server::{ServerState, TokenServer};
use super::source::TokenSource;
use super::sqlite::detached::Detached;
use super::{Header, Purpose, Store};
use crate::config::DatabaseRules;
use crate::error::{Error, Result};
use crate::sync::lock;

/// The number of times that a transaction is tried again after a conflict with another one.
const RETRIES: usize = 5;

/// The time limit of long work: a move of a token, a search for damage, an upgrade of the tables, a
/// new token key or sealing key.
const LONGEST_WORK: Duration = Duration::from_secs(30 * 60);

pub(super) struct Database {
    link: Mutex<Link>,
    outage: Arc<Outage>,
    /// The number of hosts in the address.
    hosts: usize,
}

impl Database {
    /// Connects to the server, and creates the tables if they are missing.
    pub(super) fn connect(rules: &DatabaseRules) -> Result<Arc<Self>> {
        let outage = Arc::new(Outage::new(rules.outage));
        let link = Link::new(rules, &outage).map_err(|reason| reason.log("connect"))?;
        let hosts = link.hosts();
        let database = Self { link: Mutex::new(link), outage, hosts };
        let schema = &rules.schema;
        match database.run("look for the tables", schema::look)? {
            Tables::Current => {}
            Tables::Missing => {
                info!(schema, "creating the tables of the tokens");
                database.run("create the tables", async |client| schema::create(client, schema).await)?;
            }
            Tables::Older => {
                info!(schema, "upgrading the tables of the tokens");
                database.run_long("upgrade the tables", schema::upgrade)?;
            }
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
        lock(&self.link).run(again).map_err(|reason| reason.log(what))
    }

    /// Does `work` on the server, once.
    fn run_once<T>(&self, what: &str, mut work: impl AsyncFnMut(&Client) -> Outcome<T>) -> Result<T> {
        let once = async |client: &Client| attempt_work(client, &mut work).await;
        lock(&self.link).run(once).map_err(|reason| reason.log(what))
    }

    /// Does `work` on the server, once, with the time limit of long work.
    fn run_long<T>(&self, what: &str, mut work: impl AsyncFnMut(&Client) -> Outcome<T>) -> Result<T> {
        let once = async |client: &Client| attempt_work(client, &mut work).await;
        lock(&self.link).run_within(LONGEST_WORK, once).map_err(|reason| reason.log(what))
    }

    /// Announces a commit of a token to the other hosts.
    fn announce(&self, serial: &str) {
        lock(&self.link).announce(serial);
    }

    /// Does a transaction on the server: again after a conflict with another one, unless it may
    /// take long.
    fn transact<T>(
        &self,
        purpose: Purpose,
        mut work: impl FnMut(&mut Exchange<'_>) -> Outcome<T>,
    ) -> Result<T> {
        let mut link = lock(&self.link);
        let (limit, retries) = match purpose {
            Purpose::Write | Purpose::Erase => (link.timeout(), RETRIES),
            Purpose::Rewrite => (LONGEST_WORK, 0),
        };
        let requires_standby = link.requires_standby();
        let outcome = link.exchange(limit, |exchange| {
            let mut left = retries;
            loop {
                let reason = match work(exchange) {
                    Ok(done) if requires_standby => {
                        return exchange.run(connect::expect_standby).map(|()| done);
                    }
                    Ok(done) => return Ok(done),
                    Err(reason) if reason.is_lost() => return Err(reason),
                    Err(reason) => reason,
                };
                // Without a transaction the server only warns.
                exchange.run(async |client| Ok(client.batch_execute("ROLLBACK").await?))?;
                if left == 0 || !reason.is_conflict() {
                    return Err(reason);
                }
                left -= 1;
            }
        });
        outcome.map_err(|reason| reason.log("commit"))
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

impl TokenSource for Database {
    fn list(&self) -> Result<Vec<Header>> {
        let sql = format!("{HEADER} ORDER BY serial");
        self.run("list the tokens", async |client| {
            client.query_typed(&sql, &[]).await?.iter().map(rows::header).collect()
        })
    }

    fn open(self: Arc<Self>, serial: &str) -> Result<Box<dyn Store>> {
        Ok(Box::new(DatabaseStore::new(self, serial)))
    }

    fn create(&self, header: &Header) -> Result<()> {
        self.run("create a token", async |client| transaction::insert_header(client, header).await)
    }

    fn is_outage(&self, reason: Error) -> bool {
        reason == Error::DeviceError
    }
}

impl TokenServer for Database {
    fn receive(&self, file: &Detached, ready: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.run_long("move a token", async |client| transfer::receive(client, file, ready).await)
    }

    fn release(&self, serial: &str, path: &Path, ready: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.run_long("move a token", async |client| transfer::release(client, serial, path, ready).await)
    }

    fn has(&self, serial: &str) -> Result<bool> {
        self.run_long("look for a token", async |client| transfer::has(client, serial).await)
    }

    fn remove(&self, serial: &str) -> Result<()> {
        self.run("remove a token", async |client| transfer::remove(client, serial).await)?;
        self.announce(serial);
        Ok(())
    }

    fn examine(&self) -> Result<ServerState> {
        self.run("examine the server", async |client| doctor::examine(client, self.hosts).await)
    }
}
