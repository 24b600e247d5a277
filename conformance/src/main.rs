//! Conformance of any PKCS#11 module, seen through its C interface alone.
//!
//! Functions, cases, mechanisms, vectors: each leaves a record that says what was expected and what came out. A
//! deviation of a peer is shown and fails nothing; one of Jeton ends the run with an error.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use jeton_driver::Error;
use jeton_driver::peers::Known;

mod cases;
mod child;
mod deviations;
mod document;
mod functions;
mod mechanisms;
mod place;
mod record;
mod run;
mod scorecard;
mod vectors;

use run::Subject;

/// Runs everything on a module and prints the scorecard, or on all modules and writes the document.
#[derive(Parser)]
#[command(name = "conformance", version)]
struct Options {
    /// jeton, softhsm2, nss, or the path of a shared object with an uninitialised token.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// The backend of jeton: aws-lc or rustcrypto.
    #[arg(long)]
    backend: Option<String>,
    /// Only what has one of these in `section subject name`.
    #[arg(long)]
    only: Vec<String>,
    /// Cut long sets of vectors short.
    #[arg(long)]
    quick: bool,
    /// Run jeton with either backend and every peer on this machine, and write this document.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Write the records of the module as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Set by the tool for its second self: the module's parameters are in the environment.
    #[arg(long, hide = true)]
    seat: Option<String>,
    /// Likewise: the first task.
    #[arg(long, hide = true, default_value_t = 0)]
    from: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match (&options.seat, &options.write) {
        (Some(seat), _) => {
            let Options { from, only, quick, .. } = &options;
            let choice = child::Choice { from: *from, only: only.clone(), quick: *quick };
            child::run(&options.module, seat, &choice).map(|()| ExitCode::SUCCESS)
        }
        (None, Some(path)) => write(&options, path),
        (None, None) => score(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("conformance: {error}");
        ExitCode::FAILURE
    })
}

fn subject(options: &Options, module: &str, backend: Option<&str>) -> Subject {
    let (only, quick) = (options.only.clone(), options.quick);
    Subject { module: module.to_owned(), backend: backend.map(str::to_owned), only, quick }
}

/// One module, and its scorecard.
fn score(options: &Options) -> Result<ExitCode, Error> {
    let records = run::run(&subject(options, &options.module, options.backend.as_deref()))?;
    scorecard::print(&options.module, &records);
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&records).map_err(|error| Error::Usage(error.to_string()))?;
        std::fs::write(path, text).map_err(Error::io(path))?;
    }
    let good = records.iter().all(record::Record::is_good);
    Ok(if good || options.module != Known::Jeton.name() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every module, and the document.
fn write(options: &Options, path: &PathBuf) -> Result<ExitCode, Error> {
    let mut columns = Vec::new();
    for (title, known, backend) in [
        ("Jeton, AWS-LC", Known::Jeton, Some("aws-lc")),
        ("Jeton, RustCrypto", Known::Jeton, Some("rustcrypto")),
        ("SoftHSMv2", Known::SoftHsm2, None),
        ("NSS softokn", Known::Nss, None),
    ] {
        if known.library().is_none() && known != Known::Jeton {
            eprintln!("{title} is not on this machine");
            continue;
        }
        eprintln!("{title}");
        let records = run::run(&subject(options, known.name(), backend))?;
        columns.push(document::Column { title, ours: known == Known::Jeton, records });
    }
    std::fs::write(path, document::text(&columns, options.quick)).map_err(Error::io(path))?;
    let good = columns
        .iter()
        .filter(|column| column.ours)
        .all(|column| column.records.iter().all(record::Record::is_good));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
