//! `cert issued`, `cert expiring`, `cert show`, `cert revoke` and `cert release`: the list of the
//! certificates that a CA issued.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jeton_ca::authority::REASONS;
use jeton_ca::register::{Entry, Register};
use jeton_ca::search::{self, above, is_called, others_of_key, soon};
use jeton_client::safe_text::shown;
use jeton_tool::Error;
use jeton_tool::time::seconds;
use serde::Serialize;
use x509_cert::ext::pkix::CrlReason;

use super::authority::{IssuedRow, ListFile};
use super::hook::Hook;
use super::out::{self, Encoding, Output, Written};

/// The options that choose certificates of the list.
#[derive(Args)]
struct Filter {
    #[command(flatten)]
    list: ListFile,
    /// Only certificates of the CA with this subject or common name.
    #[arg(long, value_name = "NAME")]
    ca: Option<String>,
    /// Only certificates of this profile.
    #[arg(long)]
    profile: Option<String>,
    /// Only certificates with this text in the subject or in another name.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

impl Filter {
    fn entries(&self) -> Result<Vec<Entry>, Error> {
        let register = self.list.open()?;
        let mut entries = register.entries(None)?;
        let mut of_ca = Vec::new();
        for ca in register.authorities()? {
            if self.ca.as_ref().map_or(Ok(true), |name| is_called(&ca.certificate, name))? {
                of_ca.push(ca.id);
            }
        }
        let has = |entry: &Entry, text: &String| entry.subject.contains(text) || entry.names.contains(text);
        entries.retain(|entry| {
            of_ca.contains(&entry.authority)
                && self.profile.as_ref().is_none_or(|profile| entry.profile == *profile)
                && self.name.as_ref().is_none_or(|text| has(entry, text))
        });
        Ok(entries)
    }
}

fn show<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<(), Error> {
    let rows: Vec<_> = entries.into_iter().map(IssuedRow::of).collect();
    if out::is_json() { out::json(&rows) } else { IssuedRow::list(&rows) }
}

/// List the certificates of the CAs.
#[derive(Args)]
pub struct Issued {
    #[command(flatten)]
    filter: Filter,
    /// Only certificates with this status.
    #[arg(long, value_parser = PossibleValuesParser::new(["valid", "expired", "held", "revoked"]))]
    status: Option<String>,
}

impl Issued {
    pub fn run(self) -> Result<(), Error> {
        let mut entries = self.filter.entries()?;
        entries.retain(|entry| self.status.as_ref().is_none_or(|status| entry.status() == status));
        show(&entries)
    }
}

/// List the valid certificates that end soon, without those that have a successor: a later
/// certificate with the same subject, names and profile.
///
/// Exit status: 0 if there are none, 1 otherwise.
#[derive(Args)]
pub struct Expiring {
    #[command(flatten)]
    filter: Filter,
    /// How soon: a number of days (30d), hours (12h) or weeks (4w).
    #[arg(long, default_value = "30d", value_parser = seconds)]
    within: i64,
    #[command(flatten)]
    hook: Hook,
}

impl Expiring {
    pub fn run(self) -> Result<ExitCode, Error> {
        let entries = self.filter.entries()?;
        let soon = soon(&entries, self.within);
        let code = if soon.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        for entry in &soon {
            self.hook.run("ending", entry, None);
        }
        show(soon)?;
        Ok(code)
    }
}

/// The certificate of the list that the operator means.
#[derive(Args)]
pub struct Which {
    /// The certificate: its file (a path with / or a name that ends in .pem), its serial number
    /// (serial:NUMBER), its subject, or one of its names.
    #[arg(value_name = "CERTIFICATE")]
    certificate: String,
}

impl Which {
    /// Finds the certificate in the list.
    pub fn find(&self, register: &Register) -> Result<Entry, Error> {
        Ok(search::find(register, &self.certificate)?)
    }
}

/// Write a certificate of the list again, and say what the list knows about it.
#[derive(Args)]
pub struct Show {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    list: ListFile,
    /// Also write the certificates of the CAs up to the root, without the root's.
    #[arg(long)]
    chain: bool,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

/// A certificate of the list in `--json`.
#[derive(Serialize)]
pub struct Shown {
    #[serde(flatten)]
    pub row: IssuedRow,
    #[serde(flatten)]
    pub written: Written,
    /// Whether the hook succeeded, or there is none.
    #[serde(skip)]
    pub hook: bool,
}

impl Show {
    pub fn run(self) -> Result<(), Error> {
        let register = self.list.open()?;
        let entry = self.which.find(&register)?;
        let mut all = vec![register.der(&entry)?];
        if self.chain {
            all.extend(above(&register, &entry)?);
        }
        let row = IssuedRow::of(&entry);
        if !out::is_json() {
            row.explain();
        }
        let written = self.output.encoded(&all, "CERTIFICATE", self.format)?.publish()?;
        out::if_json(&Shown { row, written, hook: true })
    }
}

/// Revoke a certificate of the list. The next CRL and the next OCSP response say so.
#[derive(Args)]
pub struct Revoke {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    list: ListFile,
    /// The reason. `cert release` ends the reason hold.
    #[arg(long, default_value = "unspecified", value_parser = PossibleValuesParser::new(REASONS.map(|(_, name)| name)))]
    reason: String,
}

impl Revoke {
    pub fn run(self) -> Result<(), Error> {
        let reason = REASONS.iter().find(|(_, name)| *name == self.reason);
        let (reason, _) = reason.expect("clap accepts only the names of the table");
        let mut register = self.list.open()?;
        let entry = self.which.find(&register)?;
        let entry = register.revoke(&entry, *reason as u32)?;
        let mut text = format!("The certificate {} of {} is revoked.", entry.serial, shown(&entry.subject));
        let same_key = match reason {
            CrlReason::KeyCompromise | CrlReason::CaCompromise => others_of_key(&register, &entry)?,
            _ => Vec::new(),
        };
        for other in &same_key {
            let subject = shown(&other.subject);
            text += &format!(
                "\nThe certificate {} of {subject} has the same key or shares a secret with it, and is not revoked: `jeton \
                cert revoke {0} --reason {}` revokes it.",
                other.serial, self.reason
            );
        }
        let same_key = same_key.iter().map(IssuedRow::of).collect();
        out::result(&RevokedRow { row: IssuedRow::of(&entry), same_key }, text)
    }
}

/// A revoked certificate in `--json`.
#[derive(Serialize)]
struct RevokedRow {
    #[serde(flatten)]
    row: IssuedRow,
    /// Further certificates of a compromised key, or of keys that share a secret with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    same_key: Vec<IssuedRow>,
}

/// Make a certificate valid again that was revoked with the reason hold.
#[derive(Args)]
pub struct Release {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    list: ListFile,
}

impl Release {
    pub fn run(self) -> Result<(), Error> {
        let mut register = self.list.open()?;
        let entry = self.which.find(&register)?;
        let entry = register.release(&entry)?;
        let text = format!("The certificate {} of {} is valid again.", entry.serial, shown(&entry.subject));
        out::result(&IssuedRow::of(&entry), text)
    }
}
