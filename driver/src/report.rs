//! What was measured, for people and for scripts.

mod machine;
mod marked;
mod table;

use std::path::Path;

use serde::Serialize;

pub use machine::Machine;
pub use marked::write_between;
pub use table::print;

use crate::Error;
use crate::peers::IN_PROCESS;
use crate::pipeline::{MeasuredBatch, ModuleDescription, Outcome, STAGES};

/// A run of the pipeline over all modules.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// The command line.
    pub command: Vec<String>,
    /// The version of the tool.
    pub version: &'static str,
    /// The stages, in the order of the numbers.
    pub stages: Vec<&'static str>,
    /// The CA algorithms asked for.
    pub algorithms: Vec<String>,
    /// The batch sizes asked for.
    pub sizes: Vec<u64>,
    /// Threads of the parallel stages.
    pub threads: usize,
    /// RSA subscriber key pairs a batch; 0: one a certificate.
    pub rsa_key_pool: u64,
    /// What became of each module.
    pub modules: Vec<ModuleReport>,
    /// Modules known by name that are not on the machine.
    pub absent: Vec<String>,
}

/// What became of a module.
#[derive(Debug, Serialize)]
pub struct ModuleReport {
    /// As the tool calls it.
    pub name: String,
    /// What it says of itself.
    pub description: Option<ModuleDescription>,
    /// The medians.
    pub batches: Vec<MeasuredBatch>,
    /// Algorithms that it lacks, with the reason.
    pub not_available: Vec<NotAvailable>,
    /// What failed.
    pub failures: Vec<FailureReport>,
    /// What is worth saying.
    pub notes: Vec<String>,
}

/// `n/a`, and why.
#[derive(Debug, Serialize)]
pub struct NotAvailable {
    /// The CA algorithm.
    pub algorithm: String,
    /// What the module lacks.
    pub reason: String,
}

/// What failed.
#[derive(Debug, Serialize)]
pub struct FailureReport {
    /// The CA algorithm, if it came so far.
    pub algorithm: Option<String>,
    /// The batch size, if it came so far.
    pub size: Option<u64>,
    /// Function, return code by name, and what was being done; or what else went wrong.
    pub message: String,
}

impl Report {
    /// An empty report of this machine.
    pub fn new(algorithms: Vec<String>, sizes: Vec<u64>, threads: usize, rsa_key_pool: u64) -> Self {
        Self {
            machine: Machine::this(),
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION"),
            stages: STAGES.iter().map(|row| row.name).collect(),
            algorithms,
            sizes,
            threads,
            rsa_key_pool,
            modules: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Adds what became of `name`.
    pub fn add(&mut self, name: String, outcome: Outcome) {
        let not_available = outcome.not_available.into_iter();
        let failures = outcome.failures.into_iter();
        self.modules.push(ModuleReport {
            name,
            description: outcome.description,
            batches: outcome.batches,
            not_available: not_available
                .map(|(algorithm, reason)| NotAvailable { algorithm, reason })
                .collect(),
            failures: failures
                .map(|(at, message)| {
                    let (algorithm, size) = at.unzip();
                    FailureReport { algorithm, size, message }
                })
                .collect(),
            notes: outcome.notes,
        });
    }

    /// Whether anything failed. A module that is absent or lacks a mechanism did not.
    pub fn failed(&self) -> bool {
        self.modules.iter().any(|module| !module.failures.is_empty())
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Usage(error.to_string()))?;
        std::fs::write(path, text + "\n").map_err(Error::io(path))
    }

    fn floor(&self) -> Option<&ModuleReport> {
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
