//! Revocation lists: what one of this CA has, and those that files have.

use std::path::Path;

use der::oid::AssociatedOid;
use der::{Decode, Encode};
use jeton_client::safe_text::from_hex;
use jeton_formats as formats;
use jeton_pki::signer::assemble;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::{CrlNumber, CrlReason};

use crate::authority::{REASONS, Ready};
use crate::file::Source;
use crate::issuer::Revoked;
use crate::register::{Entry, Register};
use crate::{Cause, Error, file};

impl Ready<'_> {
    /// Signs a CRL with these certificates of the list. It is valid from this second since 1970 on,
    /// for this number of days.
    pub fn crl(&self, number: u64, all: &[Entry], start: i64, days: u32) -> Result<Vec<u8>, Error> {
        let damaged = || Cause::Damaged.error("a revoked certificate of the list has no valid number");
        let revoked: Vec<_> = all.iter().map(revoked).collect::<Option<_>>().ok_or_else(damaged)?;
        let tbs = self.issuer.crl_tbs(number, &revoked, start.unsigned_abs(), days)?;
        let signer = &self.issuer.signer;
        Ok(assemble(&tbs, signer, &self.sign(signer, &tbs)?)?)
    }

    /// Fails if the place of the last CRL has a later one: the list is older than that.
    pub fn expect_last_crl(&self, register: &Register) -> Result<(), Error> {
        match register.authority(&self.name)?.crl_file {
            Some(file) => self.expect_newest(register, Path::new(&file)),
            None => Ok(()),
        }
    }

    /// Fails if a file has a CRL of this CA that the list does not know. A file that is missing, or
    /// has something else, says nothing.
    pub fn expect_newest(&self, register: &Register, path: &Path) -> Result<(), Error> {
        match self.published(path) {
            Some(number) => register.expect_known(&self.name, number, path),
            None => Ok(()),
        }
    }

    /// Returns the highest number of the CRLs of this CA in a file.
    fn published(&self, path: &Path) -> Option<u64> {
        let crls = read_crls(&file::read(path, Source::Found, file::LONGEST).ok()?)?;
        // A user who may write to the file may have put any number there.
        let is_own = |crl: &&CertificateList| {
            self.issuer.is_called(&crl.tbs_cert_list.issuer)
                && crl.to_der().is_ok_and(|der| self.has_signed(&der).unwrap_or(false))
        };
        let own = crls.iter().filter(is_own);
        own.filter_map(crl_number).max()
    }
}

/// Reads the CRLs of a file in PEM or DER. Returns `None` if one is damaged.
pub(crate) fn read_crls(file: &[u8]) -> Option<Vec<CertificateList>> {
    let all = formats::contents(file, &["X509 CRL"]).ok()?;
    all.iter().map(|der| CertificateList::from_der(der).ok()).collect()
}

/// Returns the number of a CRL. One that does not fit is `u64::MAX`.
pub(crate) fn crl_number(crl: &CertificateList) -> Option<u64> {
    let mut extensions = crl.tbs_cert_list.crl_extensions.iter().flatten();
    let number = extensions.find(|extension| extension.extn_id == CrlNumber::OID)?;
    let number = CrlNumber::from_der(number.extn_value.as_bytes()).ok()?;
    let bytes = number.0.as_bytes();
    Some(bytes.iter().fold(0_u64, |sum, byte| sum.saturating_mul(256).saturating_add(u64::from(*byte))))
}

/// Returns the revocation of a certificate in the list.
pub(crate) fn revoked(entry: &Entry) -> Option<Revoked> {
    let reason = REASONS.iter().find(|(reason, _)| Some(*reason as u32) == entry.reason);
    Some(Revoked {
        serial: from_hex(&entry.serial)?,
        time: entry.revoked?.unsigned_abs(),
        reason: reason.map_or(CrlReason::Unspecified, |(reason, _)| *reason),
    })
}
