//! Issuance under load: clients that order certificates at the same time from a CA whose key is in
//! a module, or in AWS-LC called directly.
//!
//! - `load`: one load (clients, algorithms, database), and what is measured under it.
//! - `client` and `ca`: the two sides. The client makes a key and a certificate request and
//!   verifies the certificate. The CA verifies the request, applies `policy`, signs, and stores the
//!   certificate through `pool`.
//! - `child`: the process of a module, which `pipeline` starts and lets take turns.
//! - `tables`: which loads are measured for which table, and the tables; `text` prints them.

mod ca;
mod child;
mod client;
mod load;
mod policy;
mod pool;
mod tables;
mod text;

pub use child::LoadChild;
pub use load::{Load, LoadTurn, METRICS, MeasuredLoad, Metric, PHASES, Phase, Storage, Values};
pub use policy::{Policy, Refusal};
pub use tables::{
    Options, ResultTable, TablePlan, TableRow, distinct_loads, document_tables, ordinary_tables, tables,
    tables_of,
};
pub use text::{IssueReport, ModuleLoads};
