//! The results of a measurement: text for people, and JSON for scripts. The tables of each scenario
//! are its own.

mod table;

use std::io::{self, Write};

use serde::Serialize;

pub use table::{Settings, print};
pub(crate) use table::{has_rsa_subscribers, ratio_cells, rsa_keys};

use crate::about::{About, module_text};
use crate::pipeline::{ModuleDescription, Outcome, Work};
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
    pub modules: Vec<ModuleReport<M>>,
    /// Known modules that are not installed.
    pub absent: Vec<String>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

#[derive(Debug, Serialize)]
pub struct ModuleReport<M> {
    pub name: String,
    pub description: Option<ModuleDescription>,
    /// What was measured.
    pub measured: Vec<M>,
    /// Algorithms that the module lacks, with the missing mechanism or function.
    pub not_available: Vec<(String, String)>,
    pub failures: Vec<String>,
    pub notes: Vec<String>,
}

impl<M, S> Report<M, S> {
    /// Starts a report of this machine.
    pub fn new(settings: S) -> Self {
        Self { about: About::this(), settings, modules: Vec::new(), absent: Vec::new(), interrupted: false }
    }

    pub fn add<W: Work<Measured = M>>(&mut self, name: String, outcome: Outcome<W>) {
        let failure = |(work, message): (Option<W>, String)| match work {
            Some(work) => format!("{work}: {message}"),
            None => message,
        };
        self.modules.push(ModuleReport {
            name,
            description: outcome.description,
            measured: outcome.measured,
            not_available: outcome.not_available,
            failures: outcome.failures.into_iter().map(failure).collect(),
            notes: outcome.notes,
        });
    }

    /// Returns whether anything failed. A module that is absent or lacks a mechanism is not a
    /// failure.
    pub fn failed(&self) -> bool {
        self.modules.iter().any(|module| !module.failures.is_empty())
    }

    pub(crate) fn baseline(&self) -> Option<&ModuleReport<M>> {
        self.modules.iter().find(|module| module.name == IN_PROCESS)
    }

    /// Prints a line for each module that was loaded.
    pub(crate) fn print_modules(&self, out: &mut dyn Write) -> io::Result<()> {
        for module in &self.modules {
            if let Some(about) = &module.description {
                writeln!(out, "{}: {}", shown(&module.name), module_text(about))?;
            }
        }
        Ok(())
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
