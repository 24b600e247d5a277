//! `crl`: signs a certificate revocation list.

use std::process::ExitCode;

use clap::Args;
use jeton_client::text::from_hex;
use jeton_pki::certificate;
use jeton_pki::issuer::Revoked;
use jeton_tool::Error;
use jeton_tool::register::Entry;
use serde::Serialize;
use x509_cert::ext::pkix::CrlReason;

use super::authority::{self, Authority, REASONS};
use super::out::{self, Encoding, Output, Written};

/// Sign a certificate revocation list (CRL) with the key of a CA.
///
/// The CRL has all certificates of this CA that `cert revoke` revoked. Its number is one more than
/// that of the last CRL.
#[derive(Args)]
pub struct Crl {
    #[command(flatten)]
    authority: Authority,
    /// The CRL is valid for this number of days from now.
    #[arg(long, default_value_t = 7)]
    days: u32,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

/// A CRL in `--json`.
#[derive(Serialize)]
struct Row {
    number: u64,
    revoked: usize,
    #[serde(flatten)]
    written: Written,
}

impl Crl {
    pub fn run(self) -> Result<ExitCode, Error> {
        let ready = self.authority.open()?;
        ready.expect_own_key()?;
        let register = authority::register(&self.authority.list, &ready)?;
        let entries = register.entries(Some(&ready.name))?;
        let revoked: Vec<_> = entries.iter().filter_map(revoked).collect();
        let number = register.next_crl_number(&ready.name)?;
        let tbs = ready.issuer.crl_tbs(number, &revoked, self.days)?;
        let signer = &ready.issuer.signer;
        let der = certificate::assemble(&tbs, signer, &self.authority.sign(&ready, signer, &tbs)?)?;
        let written = self.output.encoded(&der, "X509 CRL", self.format)?;
        if out::is_json() {
            out::json(&Row { number, revoked: revoked.len(), written })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the revocation of a certificate in the list.
pub fn revoked(entry: &Entry) -> Option<Revoked> {
    let reason = REASONS.iter().find(|(reason, _)| Some(*reason as u32) == entry.reason);
    Some(Revoked {
        serial: from_hex(&entry.serial)?,
        time: entry.revoked?.unsigned_abs(),
        reason: reason.map_or(CrlReason::Unspecified, |(reason, _)| *reason),
    })
}
