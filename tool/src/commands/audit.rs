//! `audit`: verifies an audit log of Jeton, and counts its uses.

use std::path::PathBuf;
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use comfy_table::Cell;
use jeton_client::safe_text::shown;
use jeton_tool::audit::files::Files;
use jeton_tool::audit::uses::{self, Count, Times, Uses};
use jeton_tool::audit::{Break, Noted};
use jeton_tool::time::{date, since};
use jeton_tool::{Error, audit};

use super::out;
use super::pin::warn;

/// Verify an audit log of Jeton, or count the uses in it.
#[derive(Args)]
pub struct Audit {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Verify that no line was changed, removed, added or moved.
    ///
    /// A log that was moved away continues in the next file. Name all files in any order, or their
    /// directory. The file .end beside the log has its last hash, so lines that are missing at the
    /// end are found too.
    Verify {
        #[command(flatten)]
        files: Named,
        /// The last hash of earlier files that are no longer here, as a verification printed it.
        #[arg(long, value_name = "HASH")]
        after: Option<String>,
        /// A hash that an earlier verification printed. A line of the log must still have this
        /// hash.
        #[arg(long, value_name = "HASH")]
        last: Option<String>,
    },
    /// Count the calls by function, mechanism, key and client, with the time of the last one.
    ///
    /// The keys are those that a call with a mechanism names. The log is not verified.
    Report {
        #[command(flatten)]
        files: Named,
        /// Leave out earlier calls. A date (2026-01-31), a time (2026-01-31T12:00:00Z), or how long
        /// ago: hours (12h), days (30d) or weeks (4w).
        #[arg(long, value_parser = since, value_name = "TIME")]
        since: Option<i64>,
    },
}

/// The files of a log.
#[derive(Args)]
struct Named {
    /// The log and its earlier files, or their directory.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Named {
    /// Finds the files. Names those of a directory that are not a part of the log.
    fn find(&self) -> Result<Files, Error> {
        let files = Files::find(&self.files)?;
        for other in &files.others {
            warn(&format!("{} is left out: it does not begin as an audit log", out::shown_path(other)));
        }
        Ok(files)
    }
}

impl Audit {
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.what {
            What::Verify { files, after, last } => verify(&files.find()?, &Noted { after, last }),
            What::Report { files, since } => report(&files.find()?, since).map(Termination::report),
        }
    }
}

fn verify(files: &Files, noted: &Noted) -> Result<ExitCode, Error> {
    let report = audit::verify(files, noted)?;
    if out::is_json() {
        let breaks: Vec<_> = report
            .breaks
            .iter()
            .map(|Break { file, line, fault }| {
                serde_json::json!({ "file": file.display().to_string(), "line": line, "fault": fault })
            })
            .collect();
        let valid = report.valid;
        out::json(&serde_json::json!({
            "valid_lines": valid, "breaks": breaks, "last_hash": report.last, "known": report.known
        }))?;
    } else {
        show(&report, files.logs.len() > 1)?;
        if noted.last.is_some() && !report.known {
            out::line("no line has the noted hash: lines are missing, or this is another log")?;
        }
        let [lines, breaks] = [(report.valid, "valid line"), (report.breaks.len() as u64, "break")]
            .map(|(number, noun)| out::counted(number, noun));
        out::line(format_args!("{lines}, {breaks}"))?;
        if let Some(last) = &report.last {
            out::line(format_args!("last hash: {last}"))?;
        }
    }
    let unbroken = report.breaks.is_empty() && (noted.last.is_none() || report.known);
    Ok(if unbroken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the breaks of the chain, with the names of the files if there are several.
fn show(report: &audit::Report, several: bool) -> Result<(), Error> {
    report.breaks.iter().try_for_each(|Break { file, line, fault }| {
        let file = out::shown_path(file);
        match line {
            Some(line) if several => out::line(format_args!("{file}, line {line}: {fault}")),
            Some(line) => out::line(format_args!("line {line}: {fault}")),
            None => out::line(format_args!("{file} {fault}")),
        }
    })
}

fn report(files: &Files, since: Option<i64>) -> Result<(), Error> {
    let uses = uses::count(files.lines()?, since)?;
    if out::is_json() {
        return out::json(&uses);
    }
    let Uses { calls, lost_records, invalid_lines, times, .. } = uses;
    out::line(format_args!("{calls} calls, {lost_records} lost records, {invalid_lines} invalid lines"))?;
    if let Some(Times { first, last }) = times {
        out::line(format_args!("from {} to {}", date(first), date(last)))?;
    }
    table(&["function"], &uses.functions, |of| vec![of.function.clone()])?;
    table(&["mechanism"], &uses.mechanisms, |of| vec![of.mechanism.clone()])?;
    let key = |of: &uses::Key| vec![of.token.clone(), of.label.clone(), of.id.clone()];
    table(&["token", "key label", "key ID"], &uses.keys, key)?;
    table(&["user ID", "program", "client of the agent"], &uses.clients, |of| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![of.uid.map_or(String::new(), |uid| uid.to_string()), text(&of.program), text(&of.client)]
    })
}

/// Prints the entries of a list with their counts and the time of the last call. Prints nothing if
/// the list is empty.
fn table<T>(names: &[&str], counts: &[Count<T>], cells: impl Fn(&T) -> Vec<String>) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut table = out::table(names.iter().chain(&["calls", "failed", "last call"]));
    for count in counts {
        let cells = cells(&count.of).into_iter().map(|text| Cell::new(shown(&text)));
        let last = Cell::new(date(count.times.last));
        table.add_row(cells.chain([out::number(count.calls), out::number(count.failed), last]));
    }
    out::line(table)
}
