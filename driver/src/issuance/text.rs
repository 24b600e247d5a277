//! The result of `jeton-driver issue` as text for a terminal and as JSON.

use std::io::{self, Write};

use jeton_laboratory::figure::{MOVED, UNUSABLE, WIDE};
use jeton_laboratory::{Table, paragraph};
use serde::Serialize;

use super::load::{LoadTurn, MeasuredLoad};
use super::tables::{ResultTable, TablePlan, TableRow, tables};
use crate::about::{About, module_text};
use crate::pipeline::{ModuleDescription, Outcome};
use crate::selection::{DIRECTLY, shown};

/// A measurement of issuance.
#[derive(Debug, Serialize)]
pub struct IssueReport {
    /// The machine, the command and the tool.
    #[serde(flatten)]
    pub about: About,
    /// The number of certificates of a run.
    pub requests: u64,
    /// The result of each module. The baseline is the first.
    pub modules: Vec<ModuleLoads>,
    /// The tables.
    pub tables: Vec<ResultTable>,
    /// Known modules that are not installed.
    pub absent: Vec<String>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

/// The result of a module.
#[derive(Debug, Serialize)]
pub struct ModuleLoads {
    /// The module's name in the tool.
    pub name: String,
    /// The module's description of itself.
    pub description: Option<ModuleDescription>,
    /// The loads.
    pub loads: Vec<MeasuredLoad>,
    /// Algorithms that the module lacks, each with the reason.
    pub not_available: Vec<(String, String)>,
    /// The failures.
    pub failures: Vec<String>,
    /// Notes that are not failures.
    pub notes: Vec<String>,
}

impl IssueReport {
    /// Starts a report of this machine.
    pub fn new(requests: u64) -> Self {
        Self {
            about: About::this(),
            requests,
            modules: Vec::new(),
            tables: Vec::new(),
            absent: Vec::new(),
            interrupted: false,
        }
    }

    /// Adds the result of the module `name`.
    pub fn add(&mut self, name: String, outcome: Outcome<LoadTurn>) {
        let failure = |(turn, message): (Option<LoadTurn>, String)| match turn {
            Some(LoadTurn { load, .. }) => format!("{load}: {message}"),
            None => message,
        };
        self.modules.push(ModuleLoads {
            name,
            description: outcome.description,
            loads: outcome.measured,
            not_available: outcome.not_available,
            failures: outcome.failures.into_iter().map(failure).collect(),
            notes: outcome.notes,
        });
    }

    /// Makes the tables from the results.
    pub fn make_tables(&mut self, plans: &[TablePlan]) {
        let modules: Vec<_> =
            self.modules.iter().map(|module| (module.name.as_str(), module.loads.as_slice())).collect();
        self.tables = tables(plans, &modules, self.about.machine.cores);
    }

    /// Returns whether anything failed.
    pub fn failed(&self) -> bool {
        self.modules.iter().any(|module| !module.failures.is_empty())
    }

    /// Prints the tables and notes. A table that is wider than `columns` is printed as one table
    /// for each module.
    pub fn print(&self, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.about.machine)?;
        for module in &self.modules {
            if let Some(about) = &module.description {
                writeln!(out, "{}: {}", shown(&module.name), module_text(about))?;
            }
        }
        for table in &self.tables {
            print_table(table, columns, out)?;
        }
        self.print_notes(out)
    }

    fn print_notes(&self, out: &mut dyn Write) -> io::Result<()> {
        let baseline = self.modules.first().map(|module| module.loads.as_slice()).unwrap_or_default();
        let moved = baseline.iter().filter(|one| one.spread > MOVED).count();
        if moved > 0 {
            let text = format!(
                "In {moved} of {} loads the runs of {DIRECTLY} differ by more than {:.0} %: other work disturbed this \
                 measurement. If they differ by more than {:.0} %, there is no ratio.",
                baseline.len(),
                MOVED * 100.0,
                UNUSABLE * 100.0
            );
            writeln!(out, "\n{}", paragraph(&text))?;
        }
        let text = format!(
            "Each figure is the median of the runs of at most {} certificates. A latency begins with the client's \
             key and ends when the client has verified the certificate; finalize is the part between the request's \
             arrival at the CA and the certificate's return. ratio: the milliseconds per certificate of the module, \
             divided by those of the baseline (AWS-LC called directly) in the same round; both times are those of \
             the round with the median ratio. ~: the 95 % interval of the ratio is wider than {:.0} % of it. Heap and \
             requested bytes are those of the tool's own code, without the module and the C libraries; process is \
             the memory of the whole process.",
            self.requests,
            WIDE * 100.0
        );
        writeln!(out, "\n{}", paragraph(&text))?;
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
            writeln!(out, "interrupted: the last loads are missing or have few runs")?;
        }
        for module in &self.modules {
            for failure in &module.failures {
                writeln!(out, "FAILED: {}: {failure}", shown(&module.name))?;
            }
        }
        Ok(())
    }
}

fn print_table(table: &ResultTable, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", table.title)?;
    let all: Vec<&TableRow> = table.rows.iter().collect();
    if let Some(wide) = drawn(table, &all, Modules::InColumn).within(columns) {
        writeln!(out, "{wide}")?;
    } else {
        let mut names: Vec<&str> = Vec::new();
        for row in &table.rows {
            if !names.contains(&row.module.as_str()) {
                names.push(&row.module);
            }
        }
        for name in names {
            let own: Vec<&TableRow> = table.rows.iter().filter(|row| row.module == name).collect();
            writeln!(out, "{name}:\n{}", drawn(table, &own, Modules::Left).terminal(columns))?;
        }
    }
    for remark in &table.remarks {
        writeln!(out, "{remark}")?;
    }
    Ok(())
}

/// The position of the modules' names in a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Modules {
    /// In the second column.
    InColumn,
    /// Above the table.
    Left,
}

fn drawn(table: &ResultTable, rows: &[&TableRow], modules: Modules) -> Table {
    let in_column = modules == Modules::InColumn;
    let module = |text: &str| in_column.then(|| text.to_owned());
    let headers = table.columns.iter().map(|text| (*text).to_owned());
    let header = std::iter::once(table.label.clone()).chain(module("module")).chain(headers);
    let mut drawn = Table::new(1 + usize::from(in_column), header);
    let mut last = None;
    for row in rows {
        // The label is in the first row of a load only.
        let label = if last == Some(&row.label) { String::new() } else { row.label.clone() };
        last = Some(&row.label);
        drawn.add(std::iter::once(label).chain(module(&row.module)).chain(row.cells.iter().cloned()));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use jeton_laboratory::{Interval, Ratio};

    use super::*;
    use crate::issuance::{METRICS, distinct_loads, document_tables};

    #[test]
    fn the_tables_of_the_document_fit_80_columns() {
        let plans = document_tables();
        let value = Interval { value: 12.345, low: 1.0, high: 99.0 };
        let of = |load| MeasuredLoad {
            load,
            runs: 3,
            values: vec![value; METRICS.len()],
            spread: 0.0,
            ratio: Some(Ratio {
                figure: 12.345,
                baseline: 12.345,
                quotient: Interval { value: 12.34, ..value },
            }),
        };
        let loads: Vec<_> = distinct_loads(&plans).into_iter().map(of).collect();
        let modules = [("in-process", loads.as_slice()), ("libsomemodule", loads.as_slice())];
        for table in tables(&plans, &modules, 2) {
            let mut text = Vec::new();
            print_table(&table, Some(80), &mut text).expect("a vector takes every byte");
            let text = String::from_utf8(text).expect("it is text");
            let drawn = text.lines().filter(|line| line.starts_with(['│', '┌', '╞', '└']));
            for line in drawn {
                assert!(line.chars().count() <= 80, "{}\n{text}", table.title);
            }
        }
    }
}
