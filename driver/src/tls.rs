//! Measures TLS handshakes of rustls with two servers. One has its key in a token, and the other
//! has its key in memory.
//!
//! - `case`: the types of keys, versions, key exchanges and handshakes, and the combinations that
//!   exist.
//! - `key`: a key in memory or in a token, with its certificate.
//! - `handshake`: one handshake between two connections that exchange buffers.
//! - `measure`: both servers take turns; a ratio compares turns of the same round.
//! - `report`: the tables and JSON.
//! - `serve`: a server on a socket, for independent clients.
//! - `job`, `child`, `parent`: the module runs in a process of its own, because environment
//!   variables choose its token.

mod case;
mod child;
mod handshake;
mod job;
mod key;
mod measure;
mod parent;
mod report;
mod serve;

pub use case::{Exchange, KeyKind, Resumption, TlsVersion};
pub use child::run_child;
pub use job::{Job, Serve, Work};
pub use measure::{End, Latency, MeasuredCase, Plan, Side};
pub use parent::{Watcher, run};
pub use report::{Report, print};
pub(crate) use report::{case_name, case_ratio, threads};
