//! The options of the command, and its output.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jeton_peers::{Error, Known, printed};

use crate::document::{Column, Document};
use crate::run::Subject;
use crate::{record, run, scorecard};

/// Runs all checks on one module and prints the scorecard. With --write or --page, runs them on all
/// modules and writes a document.
#[derive(Args)]
pub struct Conformance {
    /// jeton, jeton-agent, softhsm2, nss, or the path of a shared object with an uninitialised
    /// token.
    #[arg(long, default_value = "jeton")]
    module: String,
    /// The backend of jeton: aws-lc or rustcrypto.
    #[arg(long)]
    backend: Option<String>,
    /// The policy of jeton: compatible or strict, or enforce for the build on a validated module.
    #[arg(long)]
    policy: Option<String>,
    /// Let jeton offer the legacy mechanisms.
    #[arg(long)]
    legacy: bool,
    /// Try the published attacks instead of the checks.
    #[arg(long)]
    attacks: bool,
    /// Run only the checks whose `section subject name` contains one of these strings.
    #[arg(long)]
    only: Vec<String>,
    /// Check jeton with each backend, softhsm2 and nss, and write the sums to this file.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Check the same modules, and write the sums and a row for each check to this file.
    #[arg(long)]
    page: Option<PathBuf>,
    /// Write the records of the module as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Conformance {
    /// Runs the checks. Prints the scorecard of one module, or writes the sums of all.
    pub fn run(self) -> Result<ExitCode, Error> {
        if self.write.is_some() || self.page.is_some() {
            return write(&self);
        }
        let (backend, policy) = (self.backend.as_deref(), self.policy.as_deref());
        let records = run::run(&subject(&self, &self.module, backend, policy))?;
        printed(scorecard::print(&self.module, &records, &mut std::io::stdout().lock()))?;
        if let Some(path) = &self.json {
            let text =
                serde_json::to_string_pretty(&records).map_err(|error| Error::Message(error.to_string()))?;
            std::fs::write(path, text).map_err(Error::io(path))?;
        }
        let good = records.iter().all(record::Record::is_good);
        let ours = Known::named(&self.module).is_some_and(Known::is_ours);
        Ok(if good || !ours { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn subject(options: &Conformance, module: &str, backend: Option<&str>, policy: Option<&str>) -> Subject {
    let Conformance { legacy, attacks, .. } = *options;
    let only = options.only.clone();
    let (backend, policy) = (backend.map(str::to_owned), policy.map(str::to_owned));
    Subject { module: module.to_owned(), backend, policy, legacy, only, attacks }
}

/// A module of the document: its title, its name, Jeton's backend and policy.
type Listed = (&'static str, Known, Option<&'static str>, Option<&'static str>);

const MODULES: [Listed; 4] = [
    ("Jeton, AWS-LC", Known::Jeton, Some("aws-lc"), None),
    ("Jeton, RustCrypto", Known::Jeton, Some("rustcrypto"), None),
    ("SoftHSMv2", Known::SoftHsm2, None, None),
    ("NSS softokn", Known::Nss, None, None),
];

/// The backends have the same results in every attack, so the columns show the policies instead.
const ATTACKED: [Listed; 4] = [
    ("Jeton, compatible", Known::Jeton, Some("aws-lc"), Some("compatible")),
    ("Jeton, strict", Known::Jeton, Some("aws-lc"), Some("strict")),
    ("SoftHSMv2", Known::SoftHsm2, None, None),
    ("NSS softokn", Known::Nss, None, None),
];

/// Runs the checks on every module and writes the documents.
fn write(options: &Conformance) -> Result<ExitCode, Error> {
    let mut columns = Vec::new();
    let modules = if options.attacks { &ATTACKED } else { &MODULES };
    for (title, known, backend, policy) in *modules {
        if known.library().is_none() && known != Known::Jeton {
            eprintln!("{title} is not on this machine");
            continue;
        }
        eprintln!("{title}");
        let records = run::run(&subject(options, known.name(), backend, policy))?;
        columns.push(Column { title, ours: known == Known::Jeton, records });
    }
    let Document { summary, tables } =
        if options.attacks { Document::of_attacks(&columns) } else { Document::of_checks(&columns) };
    if let Some(path) = &options.write {
        std::fs::write(path, &summary).map_err(Error::io(path))?;
    }
    if let Some(path) = &options.page {
        std::fs::write(path, summary + &tables).map_err(Error::io(path))?;
    }
    let good = columns
        .iter()
        .filter(|column| column.ours)
        .all(|column| column.records.iter().all(record::Record::is_good));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
