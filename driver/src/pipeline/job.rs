//! The messages between the tool and the child process of a module: one job in, events out, one
//! JSON text in each line.

use std::path::PathBuf;

use jeton_peers::TokenAccess;
use serde::{Deserialize, Serialize};

use super::stage::STAGES;

/// The work of one child. It goes through standard input, because a PIN must not be on a command
/// line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The module's name in the report.
    pub name: String,
    /// The engine.
    pub target: Target,
    /// Names of the CA algorithms.
    pub algorithms: Vec<String>,
    /// The batch sizes.
    pub sizes: Vec<u64>,
    /// The least time for which a size is repeated.
    pub min_seconds: f64,
    /// Threads of the parallel stages.
    pub threads: usize,
    /// The number of RSA subscriber key pairs that are reused. 0 generates one for each
    /// certificate.
    pub rsa_key_pool: u64,
    /// The database.
    pub database: PathBuf,
    /// The directory for a sample of each algorithm.
    pub keep: Option<PathBuf>,
}

/// The engine of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Target {
    /// AWS-LC, called directly.
    InProcess,
    /// A module.
    Module {
        /// The shared object.
        library: PathBuf,
        /// The library parameters of `C_Initialize`.
        reserved: Option<String>,
        /// How to get a token.
        token: TokenAccess,
    },
}

/// An event of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The module was loaded.
    Described(ModuleDescription),
    /// A stage begins.
    Progress {
        /// The CA algorithm.
        algorithm: String,
        /// The batch size.
        size: u64,
        /// The repetition. 0 is the warm-up.
        run: usize,
        /// The stage.
        stage: String,
    },
    /// A size is done.
    Measured(MeasuredBatch),
    /// The module lacks what the algorithm needs.
    NotAvailable {
        /// The CA algorithm.
        algorithm: String,
        /// The reason.
        reason: String,
    },
    /// Something failed.
    Failed {
        /// The algorithm and size, if the job reached them.
        at: Option<(String, u64)>,
        /// The message.
        message: String,
    },
    /// The job is complete. The process ends.
    Done,
}

/// The module's description of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModuleDescription {
    /// `libraryDescription` of `C_GetInfo`.
    pub description: String,
    /// `manufacturerID`
    pub manufacturer: String,
    /// `libraryVersion`
    pub version: String,
    /// `cryptokiVersion`
    pub cryptoki: String,
    /// The file. `None` for the baseline.
    pub library: Option<PathBuf>,
}

/// The medians of a size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredBatch {
    /// The CA algorithm.
    pub algorithm: String,
    /// The batch size.
    pub size: u64,
    /// The number of measured runs.
    pub runs: usize,
    /// The median of each stage, in the order of the table.
    pub seconds: [f64; STAGES.len()],
}
