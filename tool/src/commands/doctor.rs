//! `doctor`: finds what is wrong with a token directory or a database, and mends what is safe.

use std::process::ExitCode;

use clap::Args;
use jeton_client::safe_text::shown;
use jeton_tool::Error;
use jeton_tool::doctor::{self, Examination, Finding};
use serde::Serialize;

use super::backup::{EitherPin, KnownPin};
use super::out;

/// Examine the token directory or the database, and show what is wrong and how to mend it.
///
/// With the PIN of the user or the SO, it decrypts every record of the tokens. Exit status: 0 if
/// nothing is wrong or --repair mended everything, 1 otherwise.
#[derive(Args)]
pub struct Doctor {
    /// Mend what is safe to mend: set the permissions of files, remove leftover files that no
    /// process holds, and move each token that no process holds into a directory of its own.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    pins: EitherPin,
}

/// A finding in `--json`.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    finding: Finding,
    /// Whether `--repair` mended the problem.
    repaired: bool,
}

impl Doctor {
    pub fn run(self) -> Result<ExitCode, Error> {
        let known = self.pins.given()?;
        let waiting = out::waiting("examining the tokens");
        let Examination { findings, mut notes } = doctor::examine(known.as_ref().map(KnownPin::login))?;
        drop(waiting);
        let mut rows = Vec::new();
        for finding in findings {
            let repaired = self.repair
                && match finding.repair() {
                    Ok(repaired) => repaired,
                    Err(reason) => {
                        notes.push(format!("not mended: {reason}"));
                        false
                    }
                };
            rows.push(Row { finding, repaired });
        }
        if out::is_json() {
            out::json(&rows)?;
        } else {
            rows.iter().try_for_each(show)?;
            if rows.is_empty() {
                out::line(format_args!("Nothing is wrong with {}.", shown(&doctor::place()?)))?;
            }
        }
        for note in notes {
            eprintln!("note: {}", shown(&note));
        }
        let mended = rows.iter().all(|row| row.repaired);
        Ok(if mended { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn show(row: &Row) -> Result<(), Error> {
    let Finding { check, file, problem, remedy, .. } = &row.finding;
    let file = file.as_ref().map_or(String::new(), |file| format!(" {}:", out::shown_path(file)));
    out::line(format_args!("{check}:{file} {}", shown(problem)))?;
    out::line(format_args!("    {}: {}", if row.repaired { "mended" } else { "mend" }, shown(remedy)))
}
