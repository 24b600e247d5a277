//! The comparative bench: the cost of PKCS#11 compared with the crypto library, for Jeton and
//! others.
//!
//! Each group is one operation. Its rows are the `baseline` (the library called directly), `jeton`
//! (our module through its C interface), our module with its other backends, and the peers. `cargo
//! bench` measures, and `cargo run --release -p jeton-benches -- report` writes
//! `docs/benchmarks.md` from the data.

#![deny(unsafe_code)]
#![allow(missing_docs, reason = "no other package imports this one")]

pub mod agent;
pub mod artefacts;
mod baseline;
// The timed calls, straight through the function list.
#[allow(unsafe_code)]
mod calls;
mod child;
pub mod counted_uses;
mod facts;
mod groups;
mod independent;
pub mod instructions;
mod names;
pub mod neighbours;
mod operation;
#[cfg(feature = "parse")]
mod parse;
pub mod report;
mod rows;
pub mod run;
mod scheme;
// The server of the tests. It ends with this process, also if this process is killed.
#[path = "../../tests/token/server.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod server;
mod settings;
pub mod startup;
pub mod store;
mod suite;
mod target;
pub mod timing;
pub mod tokens;
mod turns;

/// An error whose text the command prints.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;
