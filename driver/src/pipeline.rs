//! The X.509 PKI pipeline: fifteen timed stages that process a batch of certificates. It uses any
//! module, or AWS-LC or OpenSSL called directly.
//!
//! - `stage`: the stages and their names; `batch`: one run through them.
//! - `engine`: holds the CA key, signs and verifies. `pkcs11` does so through the C interface,
//!   `in_process` and `openssl` without it.
//! - `database`: stores certificates, CRLs and OCSP responses and reads them back.
//! - `verify`: verifies the stored documents.
//! - `parts`: does parallel work in parts, each with its own time. `undisturbed`: finds the time
//!   of a stage while no other program disturbs it.
//! - `rounds`: lets the modules take turns. Compares each run with the baseline's run in the same
//!   round. [`crate::tls`] uses it too.
//! - `job`, `child`, `parent`: each module runs in a process of its own. A crash or hang of one
//!   module is a failure in the report and does not end the measurement.

mod batch;
mod child;
mod database;
mod engine;
mod in_process;
mod job;
#[cfg(feature = "openssl")]
mod openssl;
mod parent;
mod parts;
mod pkcs11;
mod rounds;
mod stage;
mod undisturbed;
mod verify;
mod workers;

pub use child::{BatchChild, TakesTurns, run_child};
pub use database::{Database, DocumentSize};
pub use in_process::InProcess;
#[cfg(feature = "acme")]
pub(crate) use in_process::KeyPair;
pub use job::{Job, ModuleDescription, Target, Turn, Work};
pub use parent::Worker;
pub(crate) use pkcs11::{ED25519_NAME, private_template, public_template};
pub use rounds::{Answer, Group, MeasuredBatch, Outcome, Participant, Plan, Runner, Watcher, measure};
pub use stage::{Clock, Items, Place, STAGES, Stage, StageTimes, Times};
