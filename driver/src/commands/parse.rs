//! `parse`: reads the options and prints the report.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::ProgressBar;
use jeton_driver::Error;
use jeton_driver::about::write_json;
use jeton_driver::parse::{Choice, Report, measure, print};

use super::modules::{self, open_output};
use super::printing;

/// Compare libraries that read certificates.
///
/// The libraries take turns with the same certificates. The table shows medians. A ratio compares
/// two libraries in the same round. The last rows show the building of CRLs and OCSP responses.
#[derive(Args)]
pub struct Parse {
    /// The certificates: mozilla (the roots of Mozilla), pipeline (a CA and subscribers as in the
    /// pipeline, with each algorithm), hierarchy (9,889 ML-DSA certificates in five levels).
    #[arg(long, value_delimiter = ',', default_value = "mozilla,pipeline,hierarchy")]
    sets: Vec<String>,
    /// Measure each library for at least this number of seconds with each set.
    #[arg(long, default_value_t = 0.3, value_parser = modules::seconds)]
    min_seconds: f64,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Parse {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let choices = self.sets.iter().map(|name| Choice::parse(name)).collect::<Result<Vec<_>, _>>()?;
        let json = open_output(self.json.as_deref())?;
        modules::catch_interrupts();
        let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let mut report = Report::new();
        let begins = &mut |title: &str| bar.set_message(title.to_owned());
        let sets = measure(&choices, self.min_seconds, begins, &modules::interrupted)?;
        bar.finish_and_clear();
        report.add(sets, modules::interrupted());
        print(&report, &mut io::stdout().lock()).map_err(printing)?;
        if let Some((file, path)) = &json {
            write_json(&report, file, path)?;
        }
        Ok(modules::status(false))
    }
}
