//! The X.509 PKI pipeline: fifteen timed stages over a batch, on any module, or on AWS-LC called
//! directly.
//!
//! - `stage`: the stages and their names; `batch`: one run through them.
//! - `engine`: holds the CA key and signs: `pkcs11` through the C interface, `in_process` without
//!   it.
//! - `database`: stores certificates, CRLs and OCSP responses and reads them back.
//! - `verify`: the checks of stored bytes, shared with `jeton verify-db`.
//! - `job`, `child`, `parent`: each module runs in a process of its own, one after the other. A
//!   crash or hang of one module is a row of the report and does not end the run.

mod batch;
mod child;
mod database;
mod engine;
mod in_process;
mod job;
mod keep;
mod parent;
mod pkcs11;
mod stage;
mod verify;
mod workers;

pub use child::run_child;
pub use database::{Batch, Database};
pub use engine::{Engine, Subscriber};
pub use in_process::InProcess;
pub use job::{Event, Job, MeasuredBatch, ModuleDescription, Target};
pub use parent::{Outcome, Watcher, run_job};
pub use pkcs11::Pkcs11;
pub use stage::{STAGES, Stage, Timings};
pub use verify::{Verdict, verify_database};
