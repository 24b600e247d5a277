//! `config`: shows and checks the configuration of Jeton.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use jeton_tool::{Error, token_file};

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
    Show,
    /// Check the configuration files. Exits with 1 and the reason if the module would refuse them.
    Check,
}

impl Config {
    pub fn run(self) -> Result<(), Error> {
        let values = token_file::configuration()?;
        match self.what {
            What::Show if out::is_json() => out::json(&values.into_iter().collect::<BTreeMap<_, _>>())?,
            What::Show => {
                values.iter().try_for_each(|(key, value)| out::line(format_args!("{key:<26} {value}")))?;
            }
            What::Check => {
                let files = values.iter().find(|(key, _)| *key == "files").map_or("", |(_, files)| files);
                let text = format_args!("The configuration is valid. Files: {files}");
                out::result(&serde_json::json!({ "valid": true, "files": files }), text)?;
            }
        }
        Ok(())
    }
}
