//! The results of a measurement: text for people, and JSON for scripts. The tables of each scenario
//! are its own.

mod table;

use std::io::{self, Write};

use serde::Serialize;

pub use table::{Settings, print};
pub(crate) use table::{has_rsa_subscribers, rsa_keys};

use crate::about::About;
use crate::pipeline::Outcome;
use crate::selection::{IN_PROCESS, shown};

/// A measurement with all modules. `M` is what each of them measured, and `S` are the settings of
/// the scenario.
#[derive(Debug, Serialize)]
pub struct Report<M, S> {
    /// The machine, the command and the tool.
    #[serde(flatten)]
    pub about: About,
    #[serde(flatten)]
    pub settings: S,
    pub modules: Vec<Outcome<M>>,
    /// Known modules that are not installed.
    pub absent: Vec<String>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

impl<M, S> Report<M, S> {
    /// Starts a report of this machine.
    pub fn new(settings: S) -> Self {
        Self { about: About::this(), settings, modules: Vec::new(), absent: Vec::new(), interrupted: false }
    }

    /// Returns whether anything failed. A module that is absent or lacks a mechanism is not a
    /// failure.
    pub fn failed(&self) -> bool {
        self.modules.iter().any(|module| !module.failures.is_empty())
    }

    pub(crate) fn baseline(&self) -> Option<&Outcome<M>> {
        self.modules.iter().find(|module| module.name == IN_PROCESS)
    }

    /// Prints what is missing, and the failures.
    pub(crate) fn print_notes(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.absent.is_empty() {
            writeln!(out, "not on this machine: {}", self.absent.join(", "))?;
        }
        for module in &self.modules {
            for (algorithm, reason) in &module.not_available {
                writeln!(out, "n/a: {} has {reason} for {algorithm}", shown(&module.name))?;
            }
            for note in &module.notes {
                writeln!(out, "note: {}: {note}", shown(&module.name))?;
            }
        }
        if self.interrupted {
            writeln!(out, "interrupted: the last results are missing or have few runs")?;
        }
        for module in &self.modules {
            for failure in &module.failures {
                writeln!(out, "FAILED: {}: {failure}", shown(&module.name))?;
            }
        }
        Ok(())
    }
}
