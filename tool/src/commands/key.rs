//! `key`: generate, import, export, wrap and unwrap.

mod export;
mod generate;
mod import;
mod wrap;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use jeton_pki::key_type::Usage;
use jeton_tool::Error;
use jeton_tool::client::Session;

use self::export::Export;
use self::generate::Generate;
use self::wrap::{Unwrap, Wrap};
use super::target::id_of;

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

/// The options that set the permissions of a new key.
#[derive(Args)]
struct Permissions {
    /// What the key may do: sign, decrypt, wrap, derive, decapsulate. The default depends on the
    /// type.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the private or secret key to be wrapped.
    #[arg(long)]
    extractable: bool,
}

impl Permissions {
    /// Reads `--usage`.
    fn usages(&self, default: &[Usage]) -> Result<Vec<Usage>, Error> {
        if self.usage.is_empty() {
            return Ok(default.to_vec());
        }
        self.usage.iter().map(|name| Ok(Usage::parse(name)?)).collect()
    }
}

/// The options of a new key: its label, its ID and its permissions.
#[derive(Args)]
struct NewKey {
    /// The label.
    #[arg(long)]
    label: String,
    /// The ID in hexadecimal digits. Without it, 8 random bytes.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    #[command(flatten)]
    permissions: Permissions,
}

/// Reads `--id`. Without it, returns 8 random bytes that the token generates.
fn id_or_random(id: Option<&str>, session: &Session) -> Result<Vec<u8>, Error> {
    if let Some(id) = id {
        return id_of(id);
    }
    let mut id = vec![0; 8];
    session.random(&mut id)?;
    Ok(id)
}
