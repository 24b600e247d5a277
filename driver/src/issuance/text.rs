//! The result of `jeton-driver issue` as text for a terminal and as JSON.

use std::io::{self, Write};

use jeton_laboratory::figure::{MOVED, UNUSABLE, WIDE};
use jeton_laboratory::{Table, distinct, paragraph};
use serde::Serialize;

use super::load::MeasuredLoad;
use super::tables::{ResultTable, TablePlan, TableRow, tables};
use crate::report::Report;
use crate::selection::DIRECTLY;

/// A measurement of issuance. The baseline is the first module.
pub type IssueReport = Report<MeasuredLoad, Settings>;

#[derive(Debug, Serialize)]
pub struct Settings {
    pub requests: u64,
    pub tables: Vec<ResultTable>,
}

impl IssueReport {
    pub fn make_tables(&mut self, plans: &[TablePlan]) {
        let modules: Vec<_> =
            self.modules.iter().map(|module| (module.name.as_str(), module.measured.as_slice())).collect();
        self.settings.tables = tables(plans, &modules, self.about.machine.cores);
    }

    /// Prints the tables and notes. A table that is wider than `columns` is printed as one table
    /// for each module.
    pub fn print(&self, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.about.machine)?;
        self.print_modules(out)?;
        for table in &self.settings.tables {
            print_table(table, columns, out)?;
        }
        let baseline = self.modules.first().map(|module| module.measured.as_slice()).unwrap_or_default();
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
            self.settings.requests,
            WIDE * 100.0
        );
        writeln!(out, "\n{}", paragraph(&text))?;
        self.print_notes(out)
    }
}

fn print_table(table: &ResultTable, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", table.title)?;
    let all: Vec<&TableRow> = table.rows.iter().collect();
    if let Some(wide) = drawn(table, &all, Modules::InColumn).within(columns) {
        writeln!(out, "{wide}")?;
    } else {
        for name in distinct(table.rows.iter().map(|row| &row.module)) {
            let own: Vec<&TableRow> = table.rows.iter().filter(|row| row.module == *name).collect();
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
    InColumn,
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
