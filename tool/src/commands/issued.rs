//! `cert issued`, `cert expiring`, `cert show`, `cert revoke` and `cert release`: the list of the
//! certificates that a CA issued.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use der::Decode;
use jeton_client::text::shown;
use jeton_pki::name;
use jeton_tool::formats::certificate::public_key_of;
use jeton_tool::register::{Entry, Of, Register, now};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use x509_cert::Certificate;
use x509_cert::ext::pkix::CrlReason;

use super::authority::{IssuedRow, ListFile, REASONS, entry_of, number_of, read_certificate, split};
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
        let register = Register::open(&self.list.path()?)?;
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
    if out::is_json() { out::json(&rows) } else { rows.iter().try_for_each(IssuedRow::show) }
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

/// Reads a number of hours, days or weeks.
pub fn seconds(text: &str) -> Result<i64, String> {
    let unit = [("h", 3_600), ("d", 86_400), ("w", 604_800)];
    let parsed = unit.iter().find_map(|(unit, length)| {
        let number: u16 = text.strip_suffix(unit)?.parse().ok()?;
        Some(i64::from(number) * length)
    });
    parsed.ok_or_else(|| "write a number of hours, days or weeks: 12h, 30d, 4w".to_owned())
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

/// Returns the valid certificates that end in this number of seconds and have no successor, which
/// is a later certificate of the CA with the same subject, names and profile.
pub fn soon(entries: &[Entry], within: i64) -> Vec<&Entry> {
    let last = now() + within;
    let mut valid: Vec<_> = entries.iter().filter(|entry| entry.status() == "valid").collect();
    // A certificate without an end is known from a CRL alone, and is revoked.
    valid.sort_by_key(|entry| entry.not_after);
    let newest: BTreeMap<_, _> = valid.iter().map(|entry| (holder(entry), entry.id)).collect();
    let is_newest = |entry: &Entry| newest.get(&holder(entry)) == Some(&entry.id);
    valid.retain(|entry| entry.not_after.is_some_and(|end| end <= last) && is_newest(entry));
    valid
}

fn holder(entry: &Entry) -> [&str; 4] {
    [&entry.subject, &entry.names, &entry.profile, &entry.authority]
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
    /// Finds the certificate: the only valid one with this name, or else the only one. What a name
    /// and a number fit together is refused. Another user may have put a file with the name of a
    /// host into the working directory, so a word is never a file.
    pub fn find(&self, register: &Register) -> Result<Entry, Error> {
        let text = &self.certificate;
        let path = Path::new(text);
        let is_path = text.contains('/') || text.ends_with(".pem");
        let mut found = self.called(register)?;
        if is_path && path.is_file() {
            let of_file = of_file(register, path)?;
            if found.iter().any(|entry| of_file.iter().all(|own| own.id != entry.id)) {
                let text = format!(
                    "{text} is a file, and the name of another certificate; name it by serial:NUMBER"
                );
                return Err(Cause::Refused.error(text));
            }
            found = of_file;
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 if !is_path && path.is_file() => Err(Cause::NotFound.error(format!(
                "the list has no certificate with the name {text}; for the file write ./{text}"
            ))),
            0 => Err(Cause::NotFound.error(format!("the list has no certificate {text}"))),
            _ => {
                let line = |entry: &Entry| format!("serial:{} {}", entry.serial, shown(&entry.subject));
                let all: Vec<_> = found.iter().map(line).collect();
                let text =
                    format!("several certificates fit; name the file or the number: {}", all.join(", "));
                Err(Error::Failed(text))
            }
        }
    }

    /// Returns the certificates with this number or name.
    fn called(&self, register: &Register) -> Result<Vec<Entry>, Error> {
        let mut found = register.entries(None)?;
        let number = self.certificate.strip_prefix("serial:");
        let serial = number_of(number.unwrap_or(&self.certificate)).unwrap_or_default();
        let mut named = Vec::new();
        for entry in found.iter().filter(|entry| number.is_none() && entry.serial != serial) {
            // Without the bytes, the list knows no decoded name.
            let is_named = match register.der(entry) {
                Ok(der) => is_called(&der, &self.certificate)?,
                Err(_) => entry.subject == self.certificate,
            };
            if is_named {
                named.push(entry.clone());
            }
        }
        if named.iter().any(is_live) {
            named.retain(is_live);
        }
        found.retain(|entry| entry.serial == serial);
        found.extend(named);
        Ok(found)
    }
}

/// Returns the entries of the certificate in a file.
fn of_file(register: &Register, path: &Path) -> Result<Vec<Entry>, Error> {
    let der = read_certificate(path)?;
    let wanted = entry_of(&der, "", "")?;
    let mut found = register.entries(None)?;
    found.retain(|entry| {
        // An adopted certificate may have no bytes to compare.
        let is_same = register.der(entry).map_or(entry.issuer == wanted.issuer, |own| own == der);
        entry.serial == wanted.serial && is_same
    });
    Ok(found)
}

fn is_called(der: &[u8], text: &str) -> Result<bool, Error> {
    Ok(name::is_called(&Certificate::from_der(der)?.tbs_certificate, text)?)
}

fn is_live(entry: &Entry) -> bool {
    matches!(entry.status(), "valid" | "held")
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
        let register = Register::open(&self.list.path()?)?;
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

/// Returns the certificates between a certificate and the root.
pub fn above(register: &Register, entry: &Entry) -> Result<Vec<Vec<u8>>, Error> {
    let ca = register.authority(&entry.authority)?;
    let mut all = vec![ca.certificate];
    all.extend(split(&ca.above)?);
    // The last certificate is the root's, which a client has.
    all.pop();
    Ok(all)
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
        let mut register = Register::open(&self.list.path()?)?;
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
                "\nThe certificate {} of {subject} has the same key, and is not revoked: `jeton cert revoke {0} \
                --reason {}` revokes it.",
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
    /// Further certificates of a compromised key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    same_key: Vec<IssuedRow>,
}

/// Returns the valid and the held certificates of the same key, of all CAs.
fn others_of_key(register: &Register, entry: &Entry) -> Result<Vec<Entry>, Error> {
    // One that was adopted from a CRL alone has no known key.
    let Ok(der) = register.der(entry) else { return Ok(Vec::new()) };
    let mut others = register.of_key(&public_key_of(&der)?, Of::All)?;
    others.retain(|other| other.id != entry.id && ["valid", "held"].contains(&other.status()));
    Ok(others)
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
        let mut register = Register::open(&self.list.path()?)?;
        let entry = self.which.find(&register)?;
        let entry = register.release(&entry)?;
        let text = format!("The certificate {} of {} is valid again.", entry.serial, shown(&entry.subject));
        out::result(&IssuedRow::of(&entry), text)
    }
}
