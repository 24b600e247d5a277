//! Revocation lists: what one of this CA has, and those that files have.

use std::path::Path;

use der::oid::AssociatedOid;
use der::{Decode, Encode};
use jeton_client::safe_text::from_hex;
use jeton_formats as formats;
use jeton_pki::signer::assemble;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::{CrlNumber, CrlReason};

use crate::authority::{REASONS, Ready, Signature};
use crate::file::{Source, damaged};
use crate::issuer::Revoked;
use crate::register::{Entry, MOST_NUMBER, Register};
use crate::{Cause, Error, file};

/// Whether the last CRL may be lost: its file is gone, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It may not.
    Refused,
    /// It may: the operator gave the number of the next one.
    Accepted,
}

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

    /// Fails if the place of the last CRL has a later one: the list is older than that. Fails also
    /// if no CRL of this CA can be read there and the operator did not say so: it may have been a
    /// later one.
    pub fn expect_last_crl(&self, register: &Register, lost: Lost) -> Result<(), Error> {
        let Some(file) = register.authority(&self.name)?.crl_file else { return Ok(()) };
        let path = Path::new(&file);
        let number = self.published(path).and_then(|number| {
            number.ok_or_else(|| {
                damaged(path, "the last CRL was written here, and the file has no CRL of this CA")
            })
        });
        match number {
            Ok(number) => register.expect_known(&self.name, number, path),
            Err(_) if lost == Lost::Accepted => Ok(()),
            Err(error) => {
                register.expect_sure(&self.name)?;
                Err(error.cause().error(format!(
                    "{error}. The list may be older than this CRL, and lack revocations. Put the CRL back; if it is gone, \
                    `jeton crl --number` makes the next one"
                )))
            }
        }
    }

    /// Fails if a file that a CRL would replace has a CRL of this CA that the list does not know,
    /// one that cannot be read, or one of another CA. A file without CRLs says nothing.
    pub fn expect_replaceable(&self, register: &Register, path: &Path, lost: Lost) -> Result<(), Error> {
        match self.published(path) {
            Ok(Some(number)) => return register.expect_known(&self.name, number, path),
            Ok(None) => {}
            Err(_) if lost == Lost::Accepted => return Ok(()),
            Err(error) => return Err(error),
        }
        let file = file::read(path, Source::Found, file::LONGEST)?;
        let Some(other) = read_crls(&file).unwrap_or_default().into_iter().next() else { return Ok(()) };
        Err(Cause::Refused.error(format!(
            "{} has the CRL of another CA, {}: remove it, or write to another file",
            path.display(),
            other.tbs_cert_list.issuer
        )))
    }

    /// Returns the highest number of the CRLs of this CA in a file, or `None` if it has none. Fails
    /// if one cannot be read, or has the name of this CA and not its signature.
    fn published(&self, path: &Path) -> Result<Option<u64>, Error> {
        let file = file::read(path, Source::Found, file::LONGEST)?;
        let crls = read_crls(&file).unwrap_or_default();
        // PEM, or the tag and the long length of DER.
        let has_crl =
            || file.windows(3).any(|text| text == b"CRL") || matches!(file[..], [0x30, 0x80..=0xff, ..]);
        if crls.is_empty() && has_crl() {
            return Err(damaged(path, "the CRL is damaged"));
        }
        let mut last = None;
        for crl in crls.iter().filter(|crl| self.issuer.is_called(&crl.tbs_cert_list.issuer)) {
            self.expect_signed(&crl.to_der().map_err(Error::damaged)?)
                .map_err(|reason| damaged(path, &reason))?;
            let number = crl_number(crl).unwrap_or_default();
            if number > MOST_NUMBER {
                return Err(damaged(path, "the number of the CRL is above 2^62, so none may follow it"));
            }
            last = last.max(Some(number));
        }
        Ok(last)
    }

    /// Fails with the reason unless the CA signed a CRL.
    fn expect_signed(&self, der: &[u8]) -> Result<(), String> {
        match self.signature(der) {
            Ok(Signature::Own) => Ok(()),
            Ok(Signature::Foreign) => {
                Err("the CRL has the name of this CA, and not its signature".to_owned())
            }
            Ok(Signature::Unsupported(reason)) => Err(format!("the CRL cannot be verified: {reason}")),
            Err(error) => Err(error.to_string()),
        }
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
