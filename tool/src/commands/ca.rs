//! `ca`: makes the list of a CA, and writes a report from it.

use std::path::PathBuf;
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use jeton_ca::adopt::Found;
use jeton_ca::authority::Ready;
use jeton_ca::file;
use jeton_ca::issuer::{BUILT_IN, built_in_under_cnsa2};
use jeton_ca::register::{Ca as Row, Entry, Register};
use jeton_client::safe_text::shown;
use jeton_tool::{Error, token_file};

use super::authority::{Authority, IssuedRow};
use super::out::{self, Output};
use super::pin::warn;
use super::report::Report;

/// Make the list of a CA, without which it signs nothing.
#[derive(Args)]
pub struct Ca {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make the list of issued certificates, or add the CA to a list that exists.
    ///
    /// The list is bound to the key and the certificate of the CA. It also gets the certificates of
    /// the CAs above, because their constraints hold for this CA too. For a new certificate with
    /// the same key and subject, run the command again: the list goes on.
    Init(Init),
    /// Take over what another CA program knows about the CA, which gets a list if it has none.
    ///
    /// The sources are the database of OpenSSL's `ca` (index.txt), its file crlnumber, the last
    /// CRL, certificates, or folders that have them, as easy-rsa makes. What is revoked stays
    /// revoked.
    Adopt(Adopt),
    /// Write the built-in profiles of certificates, as a start for a file of --profiles.
    ///
    /// Under the policy cnsa2, they have its keys only.
    Profiles(Output),
    /// Write a page for people, or metrics for a monitor: what was issued, ends and is revoked.
    Report(Report),
}

impl Ca {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Init Adopt Report;
            What::Profiles(output) => {
                let text = if token_file::is_cnsa2()? { built_in_under_cnsa2()? } else { BUILT_IN.to_owned() };
                output.text(text.as_bytes()).map(Termination::report)
            }
        }
    }
}

#[derive(Args)]
struct Init {
    #[command(flatten)]
    authority: Authority,
    /// A file with certificates of the CAs above. Those in the token and in the list are found
    /// without it. May be repeated.
    #[arg(long, value_name = "FILE")]
    chain: Vec<PathBuf>,
}

impl Init {
    fn run(self) -> Result<(), Error> {
        let (ready, _, row) = self.open()?;
        let text = format!("{} has the CA {}.", self.authority.list.path()?.display(), shown(&row.subject));
        let json = serde_json::json!({ "subject": row.subject, "ca": ready.name, "unsure": row.unsure });
        out::result(&json, text)
    }

    /// Adds the CA to the list, which is made if it does not exist.
    fn open(&self) -> Result<(Ready<'_>, Register, Row), Error> {
        let ready = self.authority.open()?;
        let mut chain = Vec::new();
        for file in &self.chain {
            chain.extend(file::certificates(file)?);
        }
        let (register, row) = jeton_ca::init(&ready, &self.authority.list.path()?, chain)?;
        Ok((ready, register, row))
    }
}

/// The most certificates that a warning names.
const MOST_NAMED: usize = 16;

#[derive(Args)]
struct Adopt {
    /// The files and folders.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    init: Init,
}

impl Adopt {
    fn run(self) -> Result<(), Error> {
        let (ready, mut register, row) = self.init.open()?;
        let mut found = Found::new(&ready);
        found.read(&self.sources)?;
        found.warnings().iter().for_each(|text| warn(text));
        if found.unlisted() > 0 {
            warn(&format!(
                "{} certificates of the CA are not in index.txt, so it may also lack revocations: it does not count as complete",
                found.unlisted()
            ));
        }
        let (last, is_complete) = (found.last_crl(), found.is_complete());
        let entries = found.into_entries(row.crl_number);
        let (new, twins) = register.adopt(&ready.name, &entries, last, is_complete)?;
        for Entry { serial, subject, .. } in &twins {
            // RFC 5280, 4.1.2.2 forbids it, and a revocation has only the number.
            let what = "`cert show` writes the other one, and `cert revoke` revokes both";
            warn(&format!("{subject} has the number {serial} of another certificate; {what}"));
        }
        let unknown = register.of_unknown_keys(&ready.name)?;
        if !unknown.is_empty() {
            let serials: Vec<_> =
                unknown.iter().take(MOST_NAMED).map(|entry| entry.serial.as_str()).collect();
            let more = unknown.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
            let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
            warn(&format!(
                "the keys of these compromised certificates are not known, so the CA may certify them again: {}{more}; \
                `ca adopt` also reads the certificates",
                serials.join(", ")
            ));
        }
        let Row { crl_number, unsure, .. } = register.authority(&ready.name)?;
        if unsure && last.is_some() {
            warn(
                "later CRLs may have followed what was read, so the list may lack revocations: the CRL has ended, or the list \
                knew it, or only a number was read; `jeton crl --number` gives the number of the next one",
            );
        }
        let text =
            format!("{new} certificates are new. The last CRL of {} is {crl_number}.", shown(&row.subject));
        let twins: Vec<_> = twins.iter().map(IssuedRow::of).collect();
        let json =
            serde_json::json!({ "new": new, "crl_number": crl_number, "unsure": unsure, "twins": twins });
        out::result(&json, text)
    }
}
