//! `cert verify`: validates the path from a certificate to a root.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jeton_ca::file;
use jeton_ca::path::{PURPOSES, Validation, subject};
use jeton_client::safe_text::shown;
use jeton_tool::certificate_list::RULES;
use jeton_tool::time::now;
use jeton_tool::{Cause, Error};
use serde::Serialize;

use super::out;
use super::pin::{FilePin, warn};

/// Validate the path from a certificate to a root (RFC 5280, 6).
///
/// The keys and signatures are RSA from 2048 bits, P-256, P-384, P-521, Ed25519, ML-DSA, SLH-DSA
/// and composite ML-DSA. A certificate with a critical extension that this command does not know,
/// such as policy constraints, is not valid. A root counts like the other certificates: it has not
/// ended, for example, and its constraints apply. Exit status: 1 if the certificate is not valid.
#[derive(Args)]
pub struct Verify {
    /// The file with the certificate, and after it perhaps those of CAs.
    file: PathBuf,
    #[command(flatten)]
    file_pin: FilePin,
    /// The certificates of the roots.
    #[arg(long, value_name = "FILE")]
    roots: PathBuf,
    /// More certificates of CAs between them. May be repeated.
    #[arg(long, value_name = "FILE")]
    untrusted: Vec<PathBuf>,
    /// CRLs. With one, each certificate of the path below the root needs a CRL that has not ended.
    /// Of several ones of a CA with the same scope, that with the highest number counts. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// What the certificate is for.
    #[arg(long, default_value = "server-auth", value_parser = PossibleValuesParser::new(PURPOSES.map(|purpose| purpose.name)))]
    purpose: String,
    /// The certificate also has this host name or address.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The time of the validation in seconds since 1970, instead of now.
    #[arg(long, value_name = "SECONDS")]
    at: Option<u64>,
}

/// The result in `--json`.
#[derive(Serialize)]
struct Row {
    valid: bool,
    /// The subjects, from the certificate to the root.
    path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Verify {
    pub fn run(self) -> Result<ExitCode, Error> {
        let purpose = PURPOSES.iter().find(|purpose| purpose.name == self.purpose);
        let purpose = purpose.expect("clap accepts only the names of the table");
        let time = self.at.unwrap_or(now().unsigned_abs());
        let mut validation = Validation::new(purpose, time, self.host.as_deref(), RULES)?;
        let mut own = file::protected_certificates(&self.file, self.file_pin.given()?)?;
        if own.is_empty() {
            return Err(Cause::NotFound.error(format!("{} has no certificate", self.file.display())));
        }
        let leaf = own.remove(0);
        for path in &self.untrusted {
            own.extend(file::certificates(path)?);
        }
        let roots = file::certificates(&self.roots)?;
        validation.read_crls(&self.crl, warn)?;
        let (path, reason) = match validation.run(&leaf, &own, &roots) {
            Ok(path) => (path, None),
            Err(reason) => (vec![subject(&leaf)], Some(reason)),
        };
        let text = match &reason {
            None => format!("valid: {}", shown(&path.join(" < "))),
            Some(reason) => format!("not valid: {}: {reason}", shown(&path[0])),
        };
        let valid = reason.is_none();
        out::result(&Row { valid, path, reason }, text)?;
        Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
