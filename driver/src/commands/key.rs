//! `key`: generate, import, export, wrap and unwrap.

mod export;
mod generate;
mod import;
mod wrap;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jeton_driver::Error;
use jeton_driver::client::Session;
use jeton_driver::key_type::Usage;

use self::export::Export;
use self::generate::Generate;
use self::wrap::{Unwrap, Wrap};

pub use self::import::Import;
pub use self::wrap::rsa_oaep;

/// The keys of a token.
#[derive(Args)]
pub struct Key {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Generate a key or a key pair.
    Generate(Generate),
    /// Import keys and certificates from a file.
    Import(Import),
    /// Write a public key to a file.
    Export(Export),
    /// Encrypt a key with another key of the token.
    Wrap(Wrap),
    /// Import a key that was encrypted with a key of the token.
    Unwrap(Unwrap),
}

impl Key {
    /// Runs the command.
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.what {
            What::Generate(command) => command.run(),
            What::Import(command) => command.run(),
            What::Export(command) => command.run(),
            What::Wrap(command) => command.run(),
            What::Unwrap(command) => command.run(),
        }
    }
}

/// Reads `--usage`.
fn usages(names: &[String], default: &[Usage]) -> Result<Vec<Usage>, Error> {
    if names.is_empty() {
        return Ok(default.to_vec());
    }
    names.iter().map(|name| Usage::parse(name)).collect()
}

fn random_id(session: &Session) -> Result<Vec<u8>, Error> {
    let mut id = vec![0; 8];
    session.random(&mut id)?;
    Ok(id)
}
