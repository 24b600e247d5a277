//! `manual`: writes the manual pages and the completions of shells, for packages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;
use jeton_tool::Error;

/// Write the manual pages and the completions of shells to a directory.
#[derive(Args)]
pub struct Manual {
    /// An existing directory.
    directory: PathBuf,
}

impl Manual {
    /// Runs the command. `tool` describes all commands and options.
    pub fn run(self, mut tool: clap::Command) -> Result<ExitCode, Error> {
        let failed = Error::io(self.directory.clone());
        clap_mangen::generate_to(tool.clone(), &self.directory).map_err(failed)?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut tool, "jeton", &self.directory)
                .map_err(Error::io(self.directory.clone()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
