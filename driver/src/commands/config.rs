//! `config`: shows and checks the configuration of Jeton.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jeton_driver::{Error, token_file};

use super::out;

/// The configuration of Jeton.
#[derive(Args)]
pub struct Config {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the values that the module uses.
    Show {
        /// Write JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check the file of JETON_CONF. Exits with 1 and the reason if the module would refuse it.
    Check,
}

impl Config {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        let values = token_file::configuration()?;
        let file = std::env::var("JETON_CONF").unwrap_or_else(|_| "none (JETON_CONF is unset)".to_owned());
        match self.what {
            What::Show { json: true } => {
                let all: BTreeMap<_, _> = values.into_iter().chain([("file", file)]).collect();
                out::json(&all)?;
            }
            What::Show { json: false } => {
                out::line(format_args!("{:<26} {file}", "file"))?;
                values.iter().try_for_each(|(key, value)| out::line(format_args!("{key:<26} {value}")))?;
            }
            What::Check => out::line(format_args!("The configuration is valid. File: {file}"))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
