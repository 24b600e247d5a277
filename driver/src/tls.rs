//! Measures TLS handshakes of rustls with two servers. One has its key in a token, and the other
//! has its key in memory.
//!
//! - `case`: the types of keys, versions, key exchanges and handshakes, and the combinations that
//!   exist.
//! - `key`: a key in memory or in a token, with its certificate.
//! - `handshake`: one handshake between two connections that exchange buffers.
//! - `measure`: the cases and their results; a ratio compares turns of the same round.
//! - `report`: the tables and JSON.
//! - `child`: the process of the module, because environment variables choose its token. `pipeline`
//!   starts it and gives it turns.

mod case;
mod child;
mod handshake;
mod key;
mod measure;
mod report;

pub use case::{Exchange, KeyKind, Resumption, TlsVersion};
pub use child::CaseChild;
pub use measure::{Case, CaseTurn, Latency, MeasuredCase, Options, Side, Sides, Turn};
pub use report::{RUSTLS, Settings, TlsReport, print};
pub(crate) use report::{case_name, explanation, tables, threads};
