//! `crl`: signs a certificate revocation list.

use std::path::Path;

use clap::Args;
use der::oid::AssociatedOid;
use der::{Decode, Encode};
use jeton_client::text::from_hex;
use jeton_pki::certificate;
use jeton_pki::issuer::Revoked;
use jeton_tool::register::Entry;
use jeton_tool::{Cause, Error, formats};
use serde::Serialize;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::{CrlNumber, CrlReason};

use super::authority::{self, Authority, REASONS, Ready};
use super::out::{self, Draft, Encoding, Output, Written};

/// Sign a certificate revocation list (CRL) with the key of a CA.
///
/// The CRL has all certificates of this CA that `cert revoke` revoked. Its number is one more than
/// that of the last CRL. The list of the CA must exist: `jeton ca init` makes it.
#[derive(Args)]
pub struct Crl {
    #[command(flatten)]
    authority: Authority,
    /// The CRL is valid for this number of days from now.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
    /// The number of the CRL. The first CRL of a CA that is older than its list needs one, and so
    /// does the first one after a restore, if `ca adopt` did not read the last CRL.
    #[arg(long)]
    number: Option<u64>,
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
    pub fn run(self) -> Result<(), Error> {
        if self.output.keep()? {
            return Ok(());
        }
        self.output.expect_writable()?;
        let ready = self.authority.open()?;
        let mut register = authority::register(&self.authority.list, &ready)?;
        let ready = ready.bind(&register)?;
        ready.path(&register)?.iter().try_for_each(|(ca, serial)| register.expect_good(ca, serial))?;
        // The list refuses an old number too. What the file has says more.
        self.number.map_or(Ok(()), |number| self.expect_newest(number, &ready))?;
        let lifetime = i64::from(self.days) * 24 * 60 * 60;
        let make = |number, start: i64, all: &[Entry]| {
            self.expect_newest(number, &ready)?;
            let damaged = || Cause::Damaged.error("a revoked certificate of the list has no valid number");
            let revoked: Vec<_> = all.iter().map(revoked).collect::<Option<_>>().ok_or_else(damaged)?;
            let tbs = ready.issuer.crl_tbs(number, &revoked, start.unsigned_abs(), self.days)?;
            let signer = &ready.issuer.signer;
            let der = certificate::assemble(&tbs, signer, &self.authority.sign(&ready, signer, &tbs)?)?;
            Ok((self.output.encoded(&[der], "X509 CRL", self.format)?, revoked.len()))
        };
        let publish = |number, (draft, revoked): (Draft, _), turn| {
            // The reader of a pipe may never read.
            let _turn = draft.is_file().then_some(turn);
            match draft.publish() {
                Ok(written) => Ok(Row { number, revoked, written }),
                Err(error) => {
                    let text =
                        format!("{error}; the CRL {number} is lost, and `jeton crl` signs the next one");
                    Err(Error::Caused(error.cause(), text))
                }
            }
        };
        out::if_json(&register.next_crl(&ready.name, self.number, lifetime, make, publish)?)
    }

    /// Fails if the file that the CRL replaces has one that is as new or newer.
    fn expect_newest(&self, next: u64, ready: &Ready) -> Result<(), Error> {
        let published = self.output.replaced().and_then(|path| number_of(&path, ready));
        match published.filter(|published| next <= *published) {
            None => Ok(()),
            Some(published) => Err(Cause::Refused.error(format!(
                "the file has the CRL {published}, and the list would make {next}; --number is higher"
            ))),
        }
    }
}

/// Returns the highest number of the CRLs of this CA in a file.
fn number_of(path: &Path, ready: &Ready) -> Option<u64> {
    let crls = read_crls(&out::input(path, out::MESSAGE).ok()?)?;
    // A user who may write to the file may have put any number there.
    let is_own = |crl: &&CertificateList| {
        crl.tbs_cert_list.issuer.to_string() == ready.issuer.subject()
            && crl.to_der().is_ok_and(|der| ready.has_signed(&der).unwrap_or(false))
    };
    let own = crls.iter().filter(is_own);
    own.filter_map(crl_number).max()
}

/// Reads the CRLs of a file in PEM or DER. Returns `None` if one is damaged.
pub fn read_crls(file: &[u8]) -> Option<Vec<CertificateList>> {
    let all = formats::contents(file, &["X509 CRL"]).ok()?;
    all.iter().map(|der| CertificateList::from_der(der).ok()).collect()
}

/// Returns the number of a CRL. One that does not fit is `u64::MAX`.
pub fn crl_number(crl: &CertificateList) -> Option<u64> {
    let mut extensions = crl.tbs_cert_list.crl_extensions.iter().flatten();
    let number = extensions.find(|extension| extension.extn_id == CrlNumber::OID)?;
    let number = CrlNumber::from_der(number.extn_value.as_bytes()).ok()?;
    let bytes = number.0.as_bytes();
    Some(bytes.iter().fold(0_u64, |sum, byte| sum.saturating_mul(256).saturating_add(u64::from(*byte))))
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
