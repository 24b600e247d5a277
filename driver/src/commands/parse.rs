//! `parse`: reads the options and prints the report.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use indicatif::ProgressBar;
use jeton_driver::Error;
use jeton_driver::parse::{Choice, Report, measure, print};

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
    #[arg(long, default_value_t = 0.3, value_parser = super::modules::seconds)]
    min_seconds: f64,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The exit status after Ctrl-C, as in shells: 128 plus the number of SIGINT.
const INTERRUPTED_STATUS: u8 = 130;

/// Whether the user has pressed Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

impl Parse {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let choices = self.sets.iter().map(|name| Choice::parse(name)).collect::<Result<Vec<_>, _>>()?;
        let open = |path: PathBuf| Ok::<_, Error>((File::create(&path).map_err(Error::io(&path))?, path));
        let json = self.json.map(open).transpose()?;
        // The call fails only if there is already a handler, and this process has none.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
        let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let interrupted = || INTERRUPTED.load(Ordering::Relaxed);
        let mut report = Report::new();
        let begins = &mut |title: &str| bar.set_message(title.to_owned());
        let sets = measure(&choices, self.min_seconds, begins, &interrupted)?;
        bar.finish_and_clear();
        report.add(sets, interrupted());
        print(&report, &mut io::stdout().lock()).map_err(printing)?;
        if let Some((file, path)) = &json {
            report.write_json(file, path)?;
        }
        Ok(if report.interrupted { ExitCode::from(INTERRUPTED_STATUS) } else { ExitCode::SUCCESS })
    }
}
