//! The results of the pipeline, as tables for people and as JSON for scripts.

mod table;

use serde::Serialize;

pub use table::{comparison, print};
pub(crate) use table::{has_rsa_subscribers, ratio_cells, rsa_keys};

use crate::about::About;
use crate::pipeline::{MeasuredBatch, ModuleDescription, Outcome, STAGES, Turn};
use crate::selection::IN_PROCESS;

/// A measurement of the pipeline with all modules.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the command and the tool.
    #[serde(flatten)]
    pub about: About,
    /// The stages. The times of each batch are in the same order.
    pub stages: Vec<&'static str>,
    /// The CA algorithms that the user asked for.
    pub algorithms: Vec<String>,
    /// The batch sizes that the user asked for.
    pub sizes: Vec<u64>,
    /// Threads of the parallel stages.
    pub threads: usize,
    /// The number of RSA subscriber key pairs of a batch. 0 means one for each certificate.
    pub rsa_key_pool: u64,
    /// The result of each module.
    pub modules: Vec<ModuleReport>,
    /// Known modules that are not installed.
    pub absent: Vec<String>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

/// The result of a module.
#[derive(Debug, Serialize)]
pub struct ModuleReport {
    /// The module's name in the tool.
    pub name: String,
    /// The module's description of itself.
    pub description: Option<ModuleDescription>,
    /// The times.
    pub batches: Vec<MeasuredBatch>,
    /// Algorithms that the module lacks, with the reason.
    pub not_available: Vec<NotAvailable>,
    /// The failures.
    pub failures: Vec<FailureReport>,
    /// Notes that are not failures.
    pub notes: Vec<String>,
}

/// An algorithm that the module lacks.
#[derive(Debug, Serialize)]
pub struct NotAvailable {
    /// The CA algorithm.
    pub algorithm: String,
    /// The missing mechanism or function.
    pub reason: String,
}

/// A failure.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// The CA algorithm. `None` if the module failed before the first algorithm.
    pub algorithm: Option<String>,
    /// The batch size. `None` if the module failed before the first batch.
    pub size: Option<u64>,
    /// The function, the name of its return code and the step, or another reason.
    pub message: String,
}

impl Report {
    /// Starts a report of this machine.
    pub fn new(algorithms: Vec<String>, sizes: Vec<u64>, threads: usize, rsa_key_pool: u64) -> Self {
        Self {
            about: About::this(),
            stages: STAGES.iter().map(|row| row.name).collect(),
            algorithms,
            sizes,
            threads,
            rsa_key_pool,
            modules: Vec::new(),
            absent: Vec::new(),
            interrupted: false,
        }
    }

    /// Adds the result of the module `name`.
    pub fn add(&mut self, name: String, outcome: Outcome<Turn>) {
        let not_available = outcome.not_available.into_iter();
        let failures = outcome.failures.into_iter();
        self.modules.push(ModuleReport {
            name,
            description: outcome.description,
            batches: outcome.measured,
            not_available: not_available
                .map(|(algorithm, reason)| NotAvailable { algorithm, reason })
                .collect(),
            failures: failures
                .map(|(at, message)| {
                    let (algorithm, size) = at.map(|turn| (turn.algorithm, turn.size)).unzip();
                    FailureReport { algorithm, size, message }
                })
                .collect(),
            notes: outcome.notes,
        });
    }

    /// Returns whether anything failed. A module that is absent or lacks a mechanism is not a
    /// failure.
    pub fn failed(&self) -> bool {
        self.modules.iter().any(|module| !module.failures.is_empty())
    }

    fn baseline(&self) -> Option<&ModuleReport> {
        self.modules.iter().find(|module| module.name == IN_PROCESS)
    }
}

impl ModuleReport {
    fn batch(&self, algorithm: &str, size: u64) -> Option<&MeasuredBatch> {
        self.batches.iter().find(|batch| batch.algorithm == algorithm && batch.size == size)
    }

    fn lacks(&self, algorithm: &str) -> bool {
        self.not_available.iter().any(|lack| lack.algorithm == algorithm)
    }
}
