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
/// one table for each module. `None` prints wide tables, which have more columns.
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
    print_notes(report, columns, out)
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
    let table = |modules: &[&Module]| batch_table(report, modules, algorithm, size, columns);
    match table(&modules).within(columns) {
        Some(text) => writeln!(out, "{text}")?,
        None => {
            modules.iter().try_for_each(|module| writeln!(out, "{}", table(&[module]).terminal(None)))?;
        }
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

fn batch_table(
    report: &BatchReport,
    modules: &[&Module],
    algorithm: &str,
    size: u64,
    columns: Option<usize>,
) -> Table {
    let picked = |module: &Module, cells: [String; 5]| {
        let picked: &[usize] = match (is_baseline(report, module), columns) {
            (true, Some(_)) => &[0],
            (true, None) => &[0, 1],
            (false, Some(_)) => &[0, 4],
            (false, None) => &[0, 1, 2, 3, 4],
        };
        picked.iter().map(move |at| cells[*at].clone())
    };
    let names = modules.iter().flat_map(|module| {
        // The name of the baseline is longer than its times.
        let time = match is_baseline(report, module) {
            true => shown(&module.name).replace(' ', "\n"),
            false => format!("{}\ntime", shown(&module.name)),
        };
        let others = ["\nitems/s", "\nundisturbed", "AWS-LC\nundisturbed", "\nratio"].map(str::to_owned);
        let [rate, own, baseline, ratio] = others;
        picked(module, [time, rate, own, baseline, ratio])
    });
    let mut table = Table::new(1, std::iter::once("stage".to_owned()).chain(names));
    for (index, row) in STAGES.iter().enumerate() {
        let items = match row.items {
            Items::Certificates => size,
            Items::One => 1,
        };
        let cells = modules.iter().flat_map(|module| {
            let batch = module.batch(algorithm, size);
            picked(module, cells(batch.map(|one| (one.seconds[index], one.ratios[index])), Some(items)))
        });
        table.add(std::iter::once(row.name.to_owned()).chain(cells));
    }
    let cells = modules.iter().flat_map(|module| {
        let batch = module.batch(algorithm, size);
        picked(module, cells(batch.map(|one| (one.total, one.total_ratio)), None))
    });
    table.add(std::iter::once("total".to_owned()).chain(cells));
    table
}

/// Returns the cells of a module: time, items per second, and the ratio with its two times. `items`
/// is `None` for the row `total`, which has no rate.
fn cells(measured: Option<(Interval, Option<Ratio>)>, items: Option<u64>) -> [String; 5] {
    let Some((seconds, ratio)) = measured else { return std::array::from_fn(|_| "n/a".to_owned()) };
    let rate = items.map(|items| rate(items as f64 / seconds.value)).unwrap_or_default();
    let [own, baseline, ratio] = ratio_cells(ratio);
    [time(seconds.value), rate, own, baseline, ratio]
}

/// Returns a ratio after the two times whose quotient it is.
fn ratio_cells(ratio: Option<Ratio>) -> [String; 3] {
    ratio
        .map_or_else(Default::default, |one| [time(one.figure), time(one.baseline), ratio_text(one.quotient)])
}

fn print_notes(report: &BatchReport, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let times = match columns {
        Some(_) => "--wide shows both times",
        None => "the columns \"undisturbed\" have both times",
    };
    let text = format!(
        "ratio: the time of the module, divided by that of the baseline (AWS-LC called directly) in the same rounds; of \
         the parts of a stage, those count that no other program slowed ({times}). ~: its 95 % interval is wider than \
         {:.0} % of it. Stages that never call the module have no ratio.",
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
