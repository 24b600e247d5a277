//! The tables: one for each algorithm and size, with a row for each stage and columns for each
//! module.

use std::io::{self, Write};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::{ModuleReport, Report};
use crate::pipeline::{MeasuredBatch, STAGES};

/// Prints all tables and the notes below them.
pub fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let machine = &report.machine;
    writeln!(
        out,
        "{}, {} cores, {}, {} threads",
        machine.cpu, machine.cores, machine.system, report.threads
    )?;
    for module in &report.modules {
        if let Some(about) = &module.description {
            writeln!(
                out,
                "{}: {} {} ({})",
                module.name, about.description, about.version, about.manufacturer
            )?;
        }
    }
    for algorithm in &report.algorithms {
        for size in &report.sizes {
            print_batch(report, algorithm, *size, out)?;
        }
    }
    print_notes(report, out)
}

fn print_batch(report: &Report, algorithm: &str, size: u64, out: &mut dyn Write) -> io::Result<()> {
    // A module that failed before its first size has no column. The notes name the failure.
    let modules: Vec<_> = report
        .modules
        .iter()
        .filter(|module| module.batch(algorithm, size).is_some() || module.lacks(algorithm))
        .collect();
    if modules.is_empty() {
        return Ok(());
    }
    let runs: Vec<_> = modules
        .iter()
        .filter_map(|module| Some(format!("{} {}", module.name, module.batch(algorithm, size)?.runs)))
        .collect();
    writeln!(out, "\n{algorithm}, batch of {size} (medians; runs: {})", runs.join(", "))?;
    writeln!(out, "{}", batch_table(report, &modules, algorithm, size))
}

fn batch_table(report: &Report, modules: &[&ModuleReport], algorithm: &str, size: u64) -> Table {
    let baseline = report.baseline().and_then(|baseline| baseline.batch(algorithm, size));
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(header(report, modules));
    for (index, row) in STAGES.iter().enumerate() {
        let items = if row.per_certificate { size } else { 1 };
        let cells = modules.iter().flat_map(|module| {
            let seconds = |batch: &MeasuredBatch| batch.seconds[index];
            let ratio = (!is_baseline(report, module)).then(|| baseline.map(seconds));
            cells(module.batch(algorithm, size).map(seconds), Some(items), ratio)
        });
        table.add_row(std::iter::once(Cell::new(row.name)).chain(cells));
    }
    let total = |batch: &MeasuredBatch| batch.seconds.iter().sum::<f64>();
    let cells = modules.iter().flat_map(|module| {
        let ratio = (!is_baseline(report, module)).then(|| baseline.map(total));
        cells(module.batch(algorithm, size).map(total), None, ratio)
    });
    table.add_row(std::iter::once(Cell::new("total")).chain(cells));
    table
}

fn header(report: &Report, modules: &[&ModuleReport]) -> Vec<Cell> {
    let mut cells = vec![Cell::new("stage")];
    for module in modules {
        cells.push(right(format!("{}\ntime", module.name)));
        cells.push(right("\nitems/s".to_owned()));
        if !is_baseline(report, module) {
            cells.push(right("\nratio".to_owned()));
        }
    }
    cells
}

/// Returns the cells of a module: time, items per second for stages with items, and the ratio to
/// the baseline for modules other than the baseline.
fn cells(seconds: Option<f64>, items: Option<u64>, baseline: Option<Option<f64>>) -> Vec<Cell> {
    let Some(seconds) = seconds else {
        return vec![right("n/a".to_owned()); if baseline.is_some() { 3 } else { 2 }];
    };
    let rate = items.map(|items| rate(items as f64 / seconds)).unwrap_or_default();
    let mut cells = vec![right(time(seconds)), right(rate)];
    if let Some(baseline) = baseline {
        cells.push(right(
            baseline.map_or_else(|| "-".to_owned(), |baseline| format!("{:.2}", seconds / baseline)),
        ));
    }
    cells
}

fn print_notes(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nratio: time divided by the time of in-process, the baseline (AWS-LC called directly).")?;
    if report.rsa_key_pool > 0 && report.algorithms.iter().any(|name| name.starts_with("rsa")) {
        writeln!(
            out,
            "RSA: cert_gen makes {} subscriber key pairs a batch at most and reuses them (--rsa-key-pool 0: one a certificate).",
            report.rsa_key_pool
        )?;
    }
    if !report.absent.is_empty() {
        writeln!(out, "not on this machine: {}", report.absent.join(", "))?;
    }
    for module in &report.modules {
        for lack in &module.not_available {
            writeln!(out, "n/a: {} has {} for {}", module.name, lack.reason, lack.algorithm)?;
        }
        for note in &module.notes {
            writeln!(out, "note: {}: {note}", module.name)?;
        }
    }
    for module in &report.modules {
        for failure in &module.failures {
            let algorithm = failure.algorithm.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
            let size = failure.size.map(|size| format!(", batch of {size}")).unwrap_or_default();
            writeln!(out, "FAILED: {}{algorithm}{size}: {}", module.name, failure.message)?;
        }
    }
    Ok(())
}

fn is_baseline(report: &Report, module: &ModuleReport) -> bool {
    report.baseline().is_some_and(|baseline| std::ptr::eq(baseline, module))
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Formats seconds in the unit that leaves one to three digits before the decimal point.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2} M", r / 1e6),
        r if r >= 1e4 => format!("{:.1} k", r / 1e3),
        r if r >= 10.0 => format!("{r:.0}"),
        r => format!("{r:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_their_unit() {
        assert_eq!(time(0.000_012_34), "12.3 us");
        assert_eq!(time(0.012_34), "12.34 ms");
        assert_eq!(time(12.345), "12.35 s");
        assert_eq!(rate(1_234_567.0), "1.23 M");
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(rate(0.5), "0.50");
    }

    #[test]
    fn a_module_without_number_is_shown_as_not_available() {
        assert_eq!(cells(None, Some(1), Some(None)).len(), 3);
        assert_eq!(cells(None, Some(1), None).len(), 2);
    }
}
