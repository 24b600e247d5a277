//! A program of the operator that runs after a certificate is issued, or before one ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use jeton_ca::register::Entry;
use jeton_client::safe_text::shown;
use jeton_tool::Error;
use jeton_tool::time::date;

use super::pin::warn;

/// The variables with secrets of the tool, which the program does not get.
const SECRETS: [&str; 5] =
    ["JETON_PIN", "JETON_SO_PIN", "JETON_NEW_PIN", "JETON_FILE_PIN", "JETON_BACKUP_PASSPHRASE"];

#[derive(Args)]
pub struct Hook {
    /// Run this program for each certificate, with the argument issued or ending, and with the
    /// variables CERT_SERIAL, CERT_SUBJECT, CERT_NAMES, CERT_PROFILE, CERT_END and, if a file was
    /// written, CERT_FILE. Its output goes to standard error. Exit status: 1 if the program fails.
    #[arg(long, value_name = "PROGRAM")]
    hook: Option<PathBuf>,
}

impl Hook {
    /// Runs the program. Returns whether it succeeded; otherwise a warning says why not.
    pub fn run(&self, event: &str, entry: &Entry, file: Option<&Path>) -> bool {
        let Some(program) = &self.hook else { return true };
        let mut command = Command::new(program);
        // Standard output has the certificate, or JSON.
        command.arg(event).stdin(Stdio::null()).stdout(std::io::stderr());
        for secret in SECRETS {
            command.env_remove(secret);
        }
        let Entry { serial, subject, names, profile, not_after, .. } = entry;
        let end = not_after.map(date).unwrap_or_default();
        let values =
            [("SERIAL", serial), ("SUBJECT", subject), ("NAMES", names), ("PROFILE", profile), ("END", &end)];
        // A subject has no control characters, but a list may come from elsewhere.
        command.envs(values.map(|(name, value)| (format!("CERT_{name}"), shown(value))));
        match file {
            Some(file) => command.env("CERT_FILE", file),
            None => command.env_remove("CERT_FILE"),
        };
        let reason = match command.status() {
            Ok(status) if status.success() => return true,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        warn(&format!("the hook {} failed for the certificate {serial}: {reason}", program.display()));
        false
    }

    /// Fails unless the program succeeded for all certificates.
    pub fn expect(succeeded: bool) -> Result<(), Error> {
        if succeeded { Ok(()) } else { Err(Error::Failed("the hook failed; nothing else did".to_owned())) }
    }
}
