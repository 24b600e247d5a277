//! What the tool and the child process of a module say to each other: one job in, events out, JSON by lines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::stage::STAGES;

/// The work of one child. It goes through standard input: a PIN does not belong on a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// As the report calls the module.
    pub name: String,
    /// Who computes.
    pub target: Target,
    /// Names of the CA algorithms.
    pub algorithms: Vec<String>,
    /// The batch sizes.
    pub sizes: Vec<u64>,
    /// How long a size is repeated at least.
    pub min_seconds: f64,
    /// Threads of the parallel stages.
    pub threads: usize,
    /// RSA subscriber key pairs that are made and then reused; 0: one each.
    pub rsa_key_pool: u64,
    /// The database.
    pub database: PathBuf,
    /// Where a sample of each algorithm is written.
    pub keep: Option<PathBuf>,
}

/// Who computes.
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
        /// How to come by a token.
        token: TokenAccess,
    },
}

/// How to come by a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TokenAccess {
    /// `C_InitToken` in the first slot without an initialised token, then the PINs.
    Initialise,
    /// NSS: the slot of keys is there, and the security officer logs in with an empty PIN.
    Nss,
    /// A token that exists.
    Existing {
        /// Which; the only one if there is no label.
        label: Option<String>,
        /// The user's PIN.
        pin: String,
    },
}

/// What a child says.
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
        /// Which repetition; 0 is the warm-up.
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
        /// Why.
        reason: String,
    },
    /// Something failed.
    Failed {
        /// Where: the algorithm and size, if it came so far.
        at: Option<(String, u64)>,
        /// What.
        message: String,
    },
    /// All was tried. What comes after is the end of the process.
    Done,
}

/// What the module says of itself.
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
    /// The file; none for in-process.
    pub library: Option<PathBuf>,
}

/// The medians of a size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredBatch {
    /// The CA algorithm.
    pub algorithm: String,
    /// The batch size.
    pub size: u64,
    /// How many runs were measured.
    pub runs: usize,
    /// The median of each stage, in the order of the table.
    pub seconds: [f64; STAGES.len()],
}
