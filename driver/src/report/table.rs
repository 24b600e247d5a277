//! The tables: one for each algorithm and size, with a row for each stage and columns for each
//! module.

use std::io::{self, Write};

use jeton_laboratory::figure::{MOVED, UNUSABLE, WIDE, rate, ratio_text, time};
use jeton_laboratory::{Interval, Ratio, Table};
use serde::Serialize;

use super::Report;
use crate::about::module_text;
use crate::pipeline::{Items, MeasuredBatch, Outcome, STAGES};
use crate::selection::{DIRECTLY, shown};

#[derive(Debug, Serialize)]
pub struct Settings {
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
}

type BatchReport = Report<MeasuredBatch, Settings>;
type Module = Outcome<MeasuredBatch>;

impl Module {
    fn batch(&self, algorithm: &str, size: u64) -> Option<&MeasuredBatch> {
        self.measured.iter().find(|batch| batch.algorithm == algorithm && batch.size == size)
    }

    fn lacks(&self, algorithm: &str) -> bool {
        self.not_available.iter().any(|(lacking, _)| lacking == algorithm)
    }
}

/// Prints all tables and the notes below them. A table that is wider than `columns` is printed as
/// one table for each module.
pub fn print(report: &BatchReport, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let plural = if report.settings.threads == 1 { "" } else { "s" };
    writeln!(out, "{}, {} thread{plural}", report.about.machine, report.settings.threads)?;
    for module in &report.modules {
        if let Some(about) = &module.description {
            writeln!(out, "{}: {}", shown(&module.name), module_text(about))?;
        }
    }
    for algorithm in &report.settings.algorithms {
        for size in &report.settings.sizes {
            print_batch(report, algorithm, *size, columns, out)?;
        }
    }
    print_notes(report, out)
}

fn print_batch(
    report: &BatchReport,
    algorithm: &str,
    size: u64,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    // A module without a result has no column, unless it lacks the algorithm. The notes name its
    // failure.
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
        .filter_map(|module| Some(format!("{} {}", shown(&module.name), module.batch(algorithm, size)?.runs)))
        .collect();
    writeln!(out, "\n{algorithm}, batch of {size} (medians; runs: {})", runs.join(", "))?;
    match batch_table(report, &modules, algorithm, size).within(columns) {
        Some(wide) => writeln!(out, "{wide}")?,
        None => modules.iter().try_for_each(|module| {
            writeln!(out, "{}", batch_table(report, &[module], algorithm, size).terminal(None))
        })?,
    }
    let moved = report.baseline().and_then(|baseline| baseline.batch(algorithm, size));
    if let Some(moved) = moved.filter(|batch| batch.spread > MOVED) {
        writeln!(
            out,
            "The runs of {DIRECTLY} differ by {:.0} %: other work disturbed this measurement{}.",
            moved.spread * 100.0,
            if moved.spread > UNUSABLE { ", which therefore has no ratio" } else { "" }
        )?;
    }
    Ok(())
}

fn batch_table(report: &BatchReport, modules: &[&Module], algorithm: &str, size: u64) -> Table {
    let mut table = Table::new(1, header(report, modules));
    for (index, row) in STAGES.iter().enumerate() {
        let items = match row.items {
            Items::Certificates => size,
            Items::One => 1,
        };
        let cells = modules.iter().flat_map(|module| {
            let batch = module.batch(algorithm, size);
            let ratio = |batch: &MeasuredBatch| batch.ratios[index];
            let ratio = (!is_baseline(report, module)).then(|| batch.and_then(ratio));
            cells(batch.map(|batch| batch.seconds[index]), Some(items), ratio)
        });
        table.add(std::iter::once(row.name.to_owned()).chain(cells));
    }
    let cells = modules.iter().flat_map(|module| {
        let batch = module.batch(algorithm, size);
        let ratio = (!is_baseline(report, module)).then(|| batch.and_then(|batch| batch.total_ratio));
        cells(batch.map(|batch| batch.total), None, ratio)
    });
    table.add(std::iter::once("total".to_owned()).chain(cells));
    table
}

fn header(report: &BatchReport, modules: &[&Module]) -> Vec<String> {
    let mut cells = vec!["stage".to_owned()];
    for module in modules {
        cells.push(format!("{}\ntime", shown(&module.name)));
        cells.push("\nitems/s".to_owned());
        if !is_baseline(report, module) {
            cells.extend(["\nundisturbed", "AWS-LC\nundisturbed", "\nratio"].map(str::to_owned));
        }
    }
    cells
}

/// Returns the cells of a module: time, items per second, and the ratio with its two times. `items`
/// is `None` for the row `total`, which has no rate. `ratio` is `None` for the baseline, which has
/// no columns for it.
fn cells(seconds: Option<Interval>, items: Option<u64>, ratio: Option<Option<Ratio>>) -> Vec<String> {
    let Some(seconds) = seconds else {
        return vec!["n/a".to_owned(); if ratio.is_some() { 5 } else { 2 }];
    };
    let rate = items.map(|items| rate(items as f64 / seconds.value)).unwrap_or_default();
    [time(seconds.value), rate].into_iter().chain(ratio.into_iter().flat_map(ratio_cells)).collect()
}

/// Returns a ratio after the two times whose quotient it is.
fn ratio_cells(ratio: Option<Ratio>) -> [String; 3] {
    ratio
        .map_or_else(Default::default, |one| [time(one.figure), time(one.baseline), ratio_text(one.quotient)])
}

fn print_notes(report: &BatchReport, out: &mut dyn Write) -> io::Result<()> {
    let text = format!(
        "undisturbed: of the parts of a stage, those count that no other program slowed. ratio: the undisturbed \
         time of the module, divided by that of the baseline (AWS-LC called directly) in the same rounds; ~: its \
         95 % interval is wider than {:.0} % of it. Stages that never call the module have no ratio.",
        WIDE * 100.0
    );
    writeln!(out, "\n{text}")?;
    if report.settings.algorithms.iter().any(|name| has_rsa_subscribers(name)) {
        writeln!(out, "RSA: {}", rsa_keys(report.settings.rsa_key_pool))?;
    }
    report.print_notes(out)
}

fn is_baseline(report: &BatchReport, module: &Module) -> bool {
    report.baseline().is_some_and(|baseline| std::ptr::eq(baseline, module))
}

pub(crate) fn has_rsa_subscribers(algorithm: &str) -> bool {
    algorithm.rsplit('/').next().is_some_and(|subscriber| subscriber.starts_with("rsa"))
}

/// Says how many RSA key pairs `cert_gen` generates.
pub(crate) fn rsa_keys(pool: u64) -> String {
    match pool {
        0 => "cert_gen generates a new key pair for each certificate (--rsa-key-pool 0).".to_owned(),
        pool => format!(
            "cert_gen generates at most {pool} subscriber key pairs per batch and reuses them \
             (--rsa-key-pool 0: one per certificate)."
        ),
    }
}
