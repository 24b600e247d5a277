//! The options that choose a CA and its list, for `ca`, `cert`, `crl` and `ocsp`.

use std::path::PathBuf;

use clap::Args;
use jeton_ca::authority::{Key, REASONS, Ready, certificate_of};
use jeton_ca::file::{self, Source};
use jeton_ca::register::{Entry, Register};
use jeton_client::safe_text::shown;
use jeton_tool::client::Access;
use jeton_tool::object::public_key_info;
use jeton_tool::time::date;
use jeton_tool::{Error, certificate_list};
use serde::Serialize;

use super::out;
use super::target::{Chosen, Need};

/// The option that names the list of issued certificates.
#[derive(Args)]
pub struct ListFile {
    /// The list of issued certificates, an SQLite file. The default is issued.sqlite beside the
    /// token directory.
    #[arg(long, value_name = "FILE")]
    issued: Option<PathBuf>,
}

impl ListFile {
    /// Returns the path of the list.
    pub fn path(&self) -> Result<PathBuf, Error> {
        match &self.issued {
            Some(path) => Ok(path.clone()),
            None => certificate_list::path(),
        }
    }

    /// Returns whether the command line names the list.
    pub fn is_named(&self) -> bool {
        self.issued.is_some()
    }

    /// Opens the list.
    pub fn open(&self) -> Result<Register, Error> {
        Ok(Register::open(&self.path()?, certificate_list::RULES)?)
    }
}

/// The options that choose a key and the certificate of its CA. --label and --id choose the key.
#[derive(Args)]
pub struct Authority {
    #[command(flatten)]
    pub chosen: Chosen,
    /// The certificate of the CA. The default is the certificate in the token with the public key
    /// of the key.
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    #[command(flatten)]
    pub list: ListFile,
}

impl Authority {
    /// Logs in, and finds the key and the certificate of the CA.
    pub fn open(&self) -> Result<Ready<'_>, Error> {
        let (opened, session) = self.chosen.session(Access::ReadOnly, Need::Login)?;
        let handle = self.chosen.objects.one(&session, &["private"])?;
        let info = public_key_info(&session, handle)?;
        let certificate = match &self.ca_cert {
            Some(path) => file::certificate(path, Source::Named)?,
            None => certificate_of(&session, &info)?,
        };
        let pin = Box::new(move || Ok(opened.pin(&self.chosen.pin)?));
        Ok(Ready::new(Key { session, handle, info, pin }, certificate, certificate_list::RULES)?)
    }
}

/// An issued certificate in `--json`.
#[derive(Serialize)]
pub struct IssuedRow {
    serial: String,
    subject: String,
    issuer: String,
    profile: String,
    names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    /// `valid`, `expired`, `held` or `revoked`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What the request asked for and did not get.
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
}

impl IssuedRow {
    /// Describes an entry of the list.
    pub fn of(entry: &Entry) -> Self {
        let name = |number| Some(REASONS.iter().find(|(reason, _)| *reason as u32 == number)?.1);
        Self {
            status: entry.status(),
            serial: entry.serial.clone(),
            subject: entry.subject.clone(),
            issuer: entry.issuer.clone(),
            profile: entry.profile.clone(),
            names: entry.names.split_whitespace().map(str::to_owned).collect(),
            remark: entry.remark.clone(),
            not_before: entry.not_before.map(date),
            not_after: entry.not_after.map(date),
            revoked: entry.revoked.map(date),
            reason: entry.reason.and_then(name),
        }
    }

    /// Writes each row as a line.
    pub fn list(rows: &[Self]) -> Result<(), Error> {
        let cells = |row: &Self| {
            let subject = format!("{} (of {})", shown(&row.subject), shown(&row.issuer));
            let end = row.not_after.as_deref().unwrap_or("-").to_owned();
            [row.serial.clone(), row.status.to_owned(), end, row.profile.clone(), subject]
        };
        out::columns(["Serial", "Status", "Until", "Profile", "Subject"], rows.iter().map(cells))
    }

    /// Writes what the list knows to standard error, beside the certificate.
    pub fn explain(&self) {
        let what = [self.revoked.as_deref(), self.reason, self.remark.as_deref()];
        let what: Vec<_> = what.into_iter().flatten().map(shown).collect();
        eprintln!("{} {} {} {}", self.serial, self.status, shown(&self.subject), what.join(", "));
    }
}
