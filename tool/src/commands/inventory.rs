//! `inventory`: the keys of all tokens of a module.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jeton_client::safe_text::shown;
use jeton_tool::audit::files::Files;
use jeton_tool::audit::lives::Lives;
use jeton_tool::client::Access;
use jeton_tool::inventory::{Key, cbom, keys};
use jeton_tool::time::{now, seconds};
use jeton_tool::{Cause, Error, token};

use super::out;
use super::pin::UserPin;
use super::target::{ModuleOption, Need, Opened, unreadable};

/// List the keys of all tokens, with their dates, uses and certificates.
///
/// Without a login, a token shows its public keys only. --login logs in to each token: the tool
/// asks for each PIN, unless an option or JETON_PIN gives one PIN for all tokens. It stops at the
/// first wrong PIN.
///
/// Exit status: 0, or with --within 1 if a key or a certificate ends soon.
#[derive(Args)]
pub struct Inventory {
    #[command(flatten)]
    module: ModuleOption,
    /// Only the token with this label or serial number.
    #[arg(long, value_name = "LABEL")]
    token: Option<String>,
    /// Log in to each token, so that private and secret keys are listed too.
    #[arg(long)]
    login: bool,
    #[command(flatten)]
    pin: UserPin,
    /// An audit log or a directory with its files, for the times when keys were made and used last.
    /// May be repeated.
    #[arg(long, value_name = "FILE")]
    audit: Vec<PathBuf>,
    /// List only keys that end soon, or whose certificate does: a number of days (30d), hours (12h)
    /// or weeks (4w).
    #[arg(long, value_parser = seconds, value_name = "TIME")]
    within: Option<i64>,
    /// Write comma-separated values (RFC 4180).
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write a cryptography bill of materials (CycloneDX 1.6).
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    cbom: bool,
}

impl Inventory {
    pub fn run(self) -> Result<ExitCode, Error> {
        let lives = Lives::read(Files::find(&self.audit)?.lines()?)?;
        let mut all = self.keys(&lives)?;
        if let Some(within) = self.within {
            all.retain(|key| key.ends_until(now() + within));
        }
        if self.csv {
            csv(&all)?;
        } else if self.cbom {
            out::json(&cbom::document(&all, now()))?;
        } else if out::is_json() {
            out::json(&all)?;
        } else {
            lines(&all)?;
        }
        let ends = self.within.is_some() && !all.is_empty();
        Ok(if ends { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn keys(&self, lives: &Lives) -> Result<Vec<Key>, Error> {
        let module = self.module.open(None)?;
        if let Some(error) = unreadable(self.module.name()) {
            return Err(error);
        }
        let mut all = Vec::new();
        let mut found = false;
        for slot in token::slots(&module)? {
            let Some(info) = slot.token.filter(|token| token.is_initialised()) else { continue };
            if self.token.as_ref().is_some_and(|name| *name != info.label && *name != info.serial) {
                continue;
            }
            found = true;
            let opened = Opened::at(module.clone(), self.module.name(), slot.id, info);
            let session = if self.login {
                opened.session(&self.pin, Access::ReadOnly, Need::Login)?
            } else {
                module.open_session(slot.id, Access::ReadOnly)?
            };
            all.extend(keys(&session, &opened.info, lives)?);
        }
        match &self.token {
            Some(name) if !found => {
                Err(Cause::NotFound.error(format!("no token {name:?}; `jeton token list` shows the tokens")))
            }
            _ => Ok(all),
        }
    }
}

/// Writes each key as a line.
fn lines(all: &[Key]) -> Result<(), Error> {
    let header =
        ["Token", "Class", "Type", "Label", "ID", "Key ends", "Certificate ends", "Uses", "Last use"];
    let day =
        |time: &Option<String>| time.as_deref().map_or("-", |time| time.get(..10).unwrap_or(time)).to_owned();
    let cells = |key: &Key| {
        [
            shown(&key.token),
            key.class.to_owned(),
            key.key_type.clone(),
            shown(&key.label),
            key.id.clone(),
            day(&key.end),
            day(&key.certificate_end),
            key.uses_left.map_or("-".to_owned(), |uses| uses.to_string()),
            day(&key.last_use),
        ]
    };
    out::columns(header, all.iter().map(cells))
}

fn csv(all: &[Key]) -> Result<(), Error> {
    let failed = |reason: csv::Error| Error::Failed(reason.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    all.iter().try_for_each(|key| writer.serialize(key)).map_err(failed)?;
    let bytes = writer.into_inner().map_err(|reason| Error::Failed(reason.to_string()))?;
    out::line(String::from_utf8_lossy(&bytes).trim_end())
}
