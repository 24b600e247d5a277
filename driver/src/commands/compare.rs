//! `compare`: shows the changes between two result stores.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jeton_driver::{Error, Result, results};
use jeton_peers::printed;

/// Compare the last measurements of two result stores of `jeton-driver pipeline --results`.
///
/// A change is significant if the 95 % intervals of the two medians do not overlap.
#[derive(Args)]
pub struct Compare {
    /// The first store.
    before: PathBuf,
    /// The second store.
    after: PathBuf,
    /// Show significant changes only.
    #[arg(long)]
    significant: bool,
}

impl Compare {
    pub fn run(self) -> Result<ExitCode> {
        let mut compared = results::compare(&self.before, &self.after)?;
        if compared.is_empty() {
            return Err(Error::Usage("the two stores have no measurement in common".to_owned()));
        }
        compared.retain(|one| !self.significant || one.is_significant());
        let table = results::comparison(&compared);
        printed(writeln!(io::stdout().lock(), "{table}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
