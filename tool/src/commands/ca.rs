//! `ca`: makes the list of a CA, and writes a report from it.

use std::path::PathBuf;
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use cryptoki_sys::{CKA_LOCAL, CKA_VALUE};
use der::Decode;
use jeton_client::text::shown;
use jeton_pki::issuer::{BUILT_IN, built_in_under_cnsa2, is_signed};
use jeton_pki::name;
use jeton_tool::register::{Ca as Row, Entry, Register, now};
use jeton_tool::{Cause, Error, token_file};
use x509_cert::Certificate;

use super::adopt::Found;
use super::authority::{Authority, IssuedRow, Ready, entry_of, read_certificates};
use super::out::{self, Output};
use super::pin::warn;
use super::report::Report;
use super::target::Objects;

/// The longest chain of CAs.
const MOST_ABOVE: usize = 8;
/// A CA with a certificate that is older than this may have signed CRLs before it got its list. So
/// may one whose key was imported.
const NEW: i64 = 24 * 60 * 60;

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
    fn open(&self) -> Result<(Ready, Register, Row), Error> {
        let ready = self.authority.open()?;
        ready.expect_own_key()?;
        let path = self.authority.list.path()?;
        let mut known = Vec::new();
        if !Register::is_missing(&path) {
            let register = Register::create(&path)?;
            register.expect_secret(&ready.info)?;
            for ca in register.authorities()? {
                if ca.id != ready.name && is_one_ca(&ca.certificate, &ready.certificate)? {
                    let text = "the list has this CA with its name in other string types; the certificate needs those";
                    return Err(Error::Caused(Cause::Refused, text.to_owned()));
                }
                known.push(ca.certificate);
            }
        }
        for file in &self.chain {
            known.extend(read_certificates(file)?);
        }
        for object in Objects::named(None, None).find(&ready.session, &["cert"])? {
            known.push(ready.session.bytes(object, CKA_VALUE));
        }
        let above = above(&ready, &known)?;
        known.push(ready.certificate.clone());
        let is_old = |der: &Vec<u8>| {
            let start = entry_of(der, "", "").ok().and_then(|entry| entry.not_before);
            start.is_some_and(|start| start + NEW < now())
                && is_one_ca(der, &ready.certificate).unwrap_or(false)
        };
        // If the token did not make the key, other programs may have used it.
        let is_own = ready.session.flag(ready.key, CKA_LOCAL);
        let mut register = Register::create(&path)?;
        register.add_authority(&Row {
            id: ready.name.clone(),
            subject: ready.issuer.subject(),
            certificate: ready.certificate.clone(),
            above,
            crl_number: 0,
            crl_end: None,
            unsure: known.iter().any(is_old) || !is_own,
        })?;
        let row = register.authority(&ready.name)?;
        Ok((ready, register, row))
    }
}

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
        for source in &self.sources {
            found.read(source)?;
        }
        // Certificates know more than the lists.
        found.entries.sort_by_key(|(_, der)| der.is_none());
        let last = found.last_crl();
        let (new, twins) = register.adopt(&ready.name, &found.entries, last, found.is_complete())?;
        for Entry { serial, subject, .. } in &twins {
            // RFC 5280, 4.1.2.2 forbids it, and a revocation has only the number.
            let what = "the list keeps the other one, and `cert revoke` revokes both";
            warn(&format!("{subject} has the number {serial} of another certificate; {what}"));
        }
        let Row { crl_number, unsure, .. } = register.authority(&ready.name)?;
        if unsure && last.is_some() {
            warn(
                "later CRLs may have followed what was read, so the list may lack revocations: the CRL has ended, or only a \
                number was read; `jeton crl --number` gives the number of the next one",
            );
        } else if row.unsure && last.is_some_and(|last| last.number == row.crl_number) {
            warn(
                "the list knew this CRL: if later CRLs may have followed, `jeton ca adopt` reads the last one",
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

/// Returns whether two certificates have one key, and names that are equal (RFC 5280, 7.1).
fn is_one_ca(one: &[u8], other: &[u8]) -> Result<bool, Error> {
    let (one, other) =
        (Certificate::from_der(one)?.tbs_certificate, Certificate::from_der(other)?.tbs_certificate);
    let has_one_key = one.subject_public_key_info == other.subject_public_key_info;
    Ok(has_one_key && name::same(&one.subject, &other.subject))
}

/// Returns the certificates above a CA, up to one that signed itself. Each one signed the one
/// before. A certificate that signed itself comes after the others of the same key, because those
/// may have constraints.
fn above(ready: &Ready, known: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let (mut current, mut all) = (Certificate::from_der(&ready.certificate)?, Vec::new());
    let mut bytes = ready.certificate.clone();
    for _ in 0..MOST_ABOVE {
        let tbs = &current.tbs_certificate;
        if tbs.issuer == tbs.subject {
            return Ok(all);
        }
        let fitting = known.iter().filter_map(|der| {
            let other = Certificate::from_der(der).ok()?;
            let above = &other.tbs_certificate;
            let signed = || is_signed(&ready.session, &bytes, &above.subject_public_key_info).ok();
            (above.subject == tbs.issuer && signed()?).then(|| (other, der.clone()))
        });
        let signer = fitting.min_by_key(|(one, _)| one.tbs_certificate.issuer == one.tbs_certificate.subject);
        let Some((signer, der)) = signer else {
            let text = format!("the certificate of {} is not known; --chain names its file", tbs.issuer);
            return Err(Error::Caused(Cause::NotFound, text));
        };
        all.extend(&der);
        (current, bytes) = (signer, der);
    }
    Err(Error::Failed(format!("more than {MOST_ABOVE} CAs above {}", ready.issuer.subject())))
}
