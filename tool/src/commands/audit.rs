//! `audit`: verifies an audit log of Jeton.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jeton_tool::{Error, audit};

/// Verify an audit log of Jeton.
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
}

impl Audit {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let What::Verify { file, last } = self.what;
        let log = File::open(&file).map_err(Error::io(&file))?;
        let report = audit::verify(BufReader::new(log), last.as_deref()).map_err(Error::io(&file))?;
        if super::out::is_json() {
            let breaks: Vec<_> = report
                .breaks
                .iter()
                .map(|(line, fault)| serde_json::json!({ "line": line, "fault": fault.to_string() }))
                .collect();
            let valid = report.valid;
            super::out::json(&serde_json::json!({
                "valid_lines": valid, "breaks": breaks, "last_hash": report.last, "known": report.known
            }))?;
        } else {
            show(&report, last.is_some() && !report.known).map_err(super::printing)?;
        }
        let unbroken = report.breaks.is_empty() && (last.is_none() || report.known);
        Ok(if unbroken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
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
