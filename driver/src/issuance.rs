//! Issuance under load: many clients order certificates from a CA at the same time. The CA signs
//! with a module, or with AWS-LC or OpenSSL called directly.
//!
//! - `load`: one load (clients, algorithms, database), and the metrics of a run.
//! - `client` and `ca`: the two sides. The client makes a key and a certificate request and
//!   verifies the certificate. The CA verifies the request, checks it against its profile, signs,
//!   and stores the certificate through `pool`.
//! - `child`: the process of a module. `pipeline` starts it and gives it turns.
//! - `tables`: the loads of each table, and the tables of the results; `text` prints them.

mod ca;
mod child;
mod client;
mod load;
mod pool;
mod tables;
mod text;

pub use child::LoadChild;
#[cfg(feature = "acme")]
pub(crate) use child::{percentile, processor_seconds};
#[cfg(feature = "acme")]
pub(crate) use client::request;
pub use load::{Load, LoadTurn, METRICS, MeasuredLoad, Metric, PHASES, Phase, Storage, Values};
pub use tables::{
    Options, ResultTable, TablePlan, TableRow, distinct_loads, document_tables, ordinary_tables, tables,
    tables_of,
};
pub use text::{IssueReport, Settings};
