//! The options of commands that write a backup.

use std::path::PathBuf;

use clap::Args;
use jeton_tool::Error;
use jeton_tool::backup::{self, Protection, Recipient};

use super::pin::{self, Passphrase};

/// The options that say who can decrypt a backup.
#[derive(Args)]
pub struct ProtectionOptions {
    /// A recipient (age1...), who can decrypt the backup. May be repeated.
    #[arg(long, value_name = "RECIPIENT")]
    recipient: Vec<String>,
    /// A file with one recipient in each line. May be repeated.
    #[arg(long, value_name = "FILE")]
    recipients_file: Vec<PathBuf>,
    #[command(flatten)]
    passphrase: Passphrase,
}

impl ProtectionOptions {
    pub fn protection(&self) -> Result<Protection, Error> {
        let mut recipients = Vec::new();
        for text in &self.recipient {
            let recipient = text.parse();
            recipients.push(recipient.map_err(|reason: &str| Error::Usage(format!("{text:?}: {reason}")))?);
        }
        for file in &self.recipients_file {
            recipients.extend(backup::read_keys::<Recipient>(file)?);
        }
        if !recipients.is_empty() {
            return Ok(Protection::Recipients(recipients));
        }
        if !self.recipients_file.is_empty() {
            return Err(Error::Failed("the files have no recipients".to_owned()));
        }
        let ask = || pin::prompt_twice("the new passphrase of the backup", "passphrases");
        let passphrase = self.passphrase.given()?.map_or_else(ask, Ok)?;
        if passphrase.len() < backup::SHORTEST_PASSPHRASE {
            let least = backup::SHORTEST_PASSPHRASE;
            return Err(Error::Failed(format!(
                "the passphrase has {} bytes; at least {least} are needed, because a thief of the backup can guess it",
                passphrase.len()
            )));
        }
        Ok(Protection::Passphrase(passphrase))
    }
}
