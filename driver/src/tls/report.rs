//! The results of a measurement, as tables for people and as JSON for scripts.

use std::io::{self, Write};

use jeton_laboratory::Table;
use jeton_laboratory::figure::{MOVED, UNUSABLE, WIDE, rate, ratio_text, time};
use serde::Serialize;

use super::MeasuredCase;
use super::case::name_of;
use crate::about::module_text;
use crate::report::Report;

pub type TlsReport = Report<MeasuredCase, Settings>;

#[derive(Debug, Serialize)]
pub struct Settings {
    pub rustls: &'static str,
}

/// The version of rustls. A test compares it with Cargo.lock.
pub const RUSTLS: &str = "0.23.46";

/// Returns the numbers of threads of these cases in ascending order.
pub(crate) fn threads(cases: &[&MeasuredCase]) -> Vec<usize> {
    let mut threads: Vec<_> = cases.iter().map(|one| one.case.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// Returns the name of a case in a table, without its threads.
pub(crate) fn case_name(MeasuredCase { case, .. }: &MeasuredCase) -> String {
    let [key, version, exchange] = [name_of(case.key), name_of(case.version), name_of(case.exchange)];
    format!("{key} {version} {exchange} {}", name_of(case.handshake))
}

/// Formats the ratio of a case. There is no ratio if the rounds of the server with its key in
/// memory differ too much.
fn case_ratio(case: &MeasuredCase) -> String {
    if case.memory.spread > UNUSABLE { "none".to_owned() } else { ratio_text(case.ratio.quotient) }
}

/// Explains the rates and the ratio of a table, and says how many cases other work disturbed.
pub(crate) fn explanation(cases: &[&MeasuredCase]) -> String {
    let disturbed = |limit: f64| cases.iter().filter(|one| one.memory.spread > limit).count();
    format!(
        "memory, token: handshakes per second of a thread with the key there, without the slowest tenth, in the \
         round whose ratio is the median. ratio: token divided by memory; ~: its 95 % interval is wider than \
         {:.0} % of it. In {} of {} cases the rounds of the key in memory differ by more than {:.0} %, because of \
         other work; in {} by more than {:.0} %, and these have no ratio.",
        WIDE * 100.0,
        disturbed(MOVED),
        cases.len(),
        MOVED * 100.0,
        disturbed(UNUSABLE),
        UNUSABLE * 100.0
    )
}

/// A column of a table: its header, and the function that returns the cell of a case.
type Column = (&'static str, fn(&MeasuredCase) -> String);

const RATES: [Column; 5] = [
    ("memory\n1/s", |case| rate(case.ratio.baseline)),
    ("token\n1/s", |case| rate(case.ratio.figure)),
    ("\nratio", case_ratio),
    ("\n95 %", |case| format!("{:.3}-{:.3}", case.ratio.quotient.low, case.ratio.quotient.high)),
    ("client\n1/s", |case| rate(case.token.client.value)),
];
const LATENCIES: [Column; 5] = [
    ("memory\np50", |case| time(case.memory.latency.p50)),
    ("token\np50", |case| time(case.token.latency.p50)),
    ("\np90", |case| time(case.token.latency.p90)),
    ("\np99", |case| time(case.token.latency.p99)),
    ("\np99.9", |case| time(case.token.latency.p999)),
];

/// Prints two tables for each number of threads, and the notes below them.
pub fn print(report: &TlsReport, out: &mut dyn Write) -> io::Result<()> {
    let [before, after] = &report.about.load;
    writeln!(out, "{}, load {before}, then {after}", report.about.machine)?;
    writeln!(out, "rustls {} with aws-lc-rs", report.settings.rustls)?;
    for module in &report.modules {
        let in_memory = || "both keys are in memory".to_owned();
        writeln!(
            out,
            "{}: {}",
            module.name,
            module.description.as_ref().map_or_else(in_memory, module_text)
        )?;
    }
    let measured: Vec<_> = report.modules.iter().flat_map(|module| &module.measured).collect();
    for threads in threads(&measured) {
        let cases: Vec<_> = measured.iter().copied().filter(|one| one.case.threads == threads).collect();
        let plural = if threads == 1 { "thread" } else { "threads" };
        writeln!(out, "\n{threads} {plural}: handshakes per second and thread (server's time)")?;
        let [rates, latencies] = tables(&cases);
        writeln!(out, "{}", rates.terminal(None))?;
        writeln!(out, "{threads} {plural}: the server's time for one handshake")?;
        writeln!(out, "{}", latencies.terminal(None))?;
    }
    let text = format!("{} client: the client's rate (median).", explanation(&measured));
    writeln!(out, "\n{text}")?;
    report.print_notes(out)
}

/// Returns the tables of the rates and of the latencies.
pub(crate) fn tables(cases: &[&MeasuredCase]) -> [Table; 2] {
    [RATES, LATENCIES].map(|columns| {
        let header = std::iter::once("handshake").chain(columns.iter().map(|(name, _)| *name));
        let row = |case: &&MeasuredCase| (case_name(case), columns.map(|(_, cell)| cell(case)));
        Table::new(1, header).with(cases.iter().map(row))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reported_version_of_rustls_is_that_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"rustls\"\nversion = \"{RUSTLS}\"")));
    }
}
