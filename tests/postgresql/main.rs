//! Tokens in a PostgreSQL database: several hosts at once, outages, what the administrator of the
//! database can change, and settings that are refused. Each host is a module of its own, with its
//! own connection.
//!
//! The tests of `tests/token` and `tests/crash` also run on a database, if `JETON_TEST_STORE` is
//! `postgresql`. Hosts that are processes, and a server that crashes while they work, are cases of
//! `tests/crash/database`.
//!
//! - `JETON_TEST_USES`: how often four hosts use a counter (400)
//! - `JETON_TEST_PARTITION_SECONDS`: how long the network of two hosts delivers nothing (3)
//! - `JETON_TEST_CUTS`: how many connections the network cuts (20)
//!
//! If PostgreSQL is not installed, the tests are skipped. If `JETON_TEST_STORE` is set, they fail
//! instead.

#[path = "../token/keys.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod keys;
#[path = "../token/prelude.rs"]
mod prelude;
#[path = "../token/support.rs"]
#[allow(dead_code, reason = "the cases of tests/token use the rest")]
mod support;

mod administrator;
mod control;
mod failover;
mod hostile;
mod hosts;
mod network;
mod outage;
mod proxy;
mod settings;
mod tls;

use std::sync::Arc;

use jeton::backend::Provider;

use support::server::Server;
use support::{Client, Directory};

/// Returns the server that the tests share. Without PostgreSQL, prints a line, or fails as stated
/// above.
fn server() -> Option<&'static Server> {
    let server = Server::shared();
    if server.is_none() {
        assert!(std::env::var_os("JETON_TEST_STORE").is_none(), "PostgreSQL is not installed");
        jeton_programs::skip_without("PostgreSQL", &["postgresql"]);
    }
    server
}

fn directory(server: &Server) -> Arc<Directory> {
    let directory = Directory::new();
    directory.use_server(server);
    directory
}

fn host(server: &Server, configuration: &str) -> Client {
    Client::initialise(&directory(server), provider(), configuration)
}

/// Another host with the same token.
fn another(first: &Client, configuration: &str) -> Client {
    Client::beside(&first.directory, provider(), configuration)
}

fn provider() -> &'static Provider {
    Provider::ALL[0]
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
}
