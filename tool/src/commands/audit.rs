//! `audit`: verifies an audit log of Jeton, and counts its uses.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use comfy_table::Cell;
use jeton_client::text::shown;
use jeton_peers::printed;
use jeton_tool::audit::uses::{self, Count, Uses};
use jeton_tool::{Error, audit};

use super::out;

/// Verify an audit log of Jeton, or count the uses in it.
#[derive(Args)]
pub struct Audit {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Verify that no line was changed, removed, added or moved.
    Verify {
        /// The log.
        file: PathBuf,
        /// A hash that an earlier verification printed. A line of the log must still have this
        /// hash.
        #[arg(long)]
        last: Option<String>,
    },
    /// Count the calls by function, mechanism, key and client.
    ///
    /// The keys are those that a call with a mechanism names. The log is not verified.
    Report {
        /// The log.
        file: PathBuf,
    },
}

impl Audit {
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.what {
            What::Verify { file, last } => verify(&file, last.as_deref()),
            What::Report { file } => report(&file).map(Termination::report),
        }
    }
}

fn verify(file: &Path, last: Option<&str>) -> Result<ExitCode, Error> {
    let report = audit::verify(open(file)?, last).map_err(Error::io(file))?;
    if out::is_json() {
        let breaks: Vec<_> = report
            .breaks
            .iter()
            .map(|(line, fault)| serde_json::json!({ "line": line, "fault": fault.to_string() }))
            .collect();
        let valid = report.valid;
        out::json(&serde_json::json!({
            "valid_lines": valid, "breaks": breaks, "last_hash": report.last, "known": report.known
        }))?;
    } else {
        printed(show(&report, last.is_some() && !report.known))?;
    }
    let unbroken = report.breaks.is_empty() && (last.is_none() || report.known);
    Ok(if unbroken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open(file: &Path) -> Result<BufReader<File>, Error> {
    File::open(file).map(BufReader::new).map_err(Error::io(file))
}

fn show(report: &audit::Report, missing: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for (line, fault) in &report.breaks {
        writeln!(out, "line {line}: {fault}")?;
    }
    if missing {
        writeln!(out, "no line has the noted hash: lines are missing, or this is another log")?;
    }
    writeln!(out, "{} valid lines, {} breaks", report.valid, report.breaks.len())?;
    match &report.last {
        Some(last) => writeln!(out, "last hash: {last}"),
        None => Ok(()),
    }
}

fn report(file: &Path) -> Result<(), Error> {
    let uses = uses::count(open(file)?).map_err(Error::io(file))?;
    if out::is_json() {
        return out::json(&uses);
    }
    let Uses { calls, lost_records, invalid_lines, .. } = uses;
    out::line(format_args!("{calls} calls, {lost_records} lost records, {invalid_lines} invalid lines"))?;
    table(&["function"], &uses.functions, |of| vec![of.function.clone()])?;
    table(&["mechanism"], &uses.mechanisms, |of| vec![of.mechanism.clone()])?;
    let key = |of: &uses::Key| vec![of.token.clone(), of.label.clone(), of.id.clone()];
    table(&["token", "key label", "key ID"], &uses.keys, key)?;
    table(&["user ID", "program", "client of the agent"], &uses.clients, |of| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![of.uid.map_or(String::new(), |uid| uid.to_string()), text(&of.program), text(&of.client)]
    })
}

/// Prints the entries of a list with their counts. Prints nothing if the list is empty.
fn table<T>(names: &[&str], counts: &[Count<T>], cells: impl Fn(&T) -> Vec<String>) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut table = out::table(names.iter().chain(&["calls", "failed"]));
    for count in counts {
        let cells = cells(&count.of).into_iter().map(|text| Cell::new(shown(&text)));
        table.add_row(cells.chain([out::number(count.calls), out::number(count.failed)]));
    }
    out::line(table)
}
