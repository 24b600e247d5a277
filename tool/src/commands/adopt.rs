//! `ca adopt`: reads what another CA program knows about a CA: certificates, the database of
//! OpenSSL's `ca`, its counter and its last CRL.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use der::oid::AssociatedOid;
use der::{Any, Decode, Encode, Tag};
use jeton_client::text::hex;
use jeton_tool::register::{Entry, HOLD, LastCrl, now};
use jeton_tool::{Cause, Error};
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::CrlReason;
use x509_cert::time::Time;

use super::authority::{Ready, entry_of, number_of, read_certificate, read_certificates};
use super::crl::{crl_number, read_crls};
use super::out;

/// What an adopted certificate has in place of a profile.
const PROFILE: &str = "adopted";
/// Folders of OpenSSL and easy-rsa that have no certificates.
const SKIPPED: [&str; 3] = ["private", "reqs", "inline"];
/// The highest number of a CRL that the list can keep.
const MOST: u64 = i64::MAX as u64;

/// The reasons in the database of OpenSSL, and their numbers in RFC 5280, 5.3.1.
const REASONS: [(&str, u32); 10] = [
    ("unspecified", 0),
    ("keyCompromise", 1),
    ("CACompromise", 2),
    ("affiliationChanged", 3),
    ("superseded", 4),
    ("cessationOfOperation", 5),
    ("certificateHold", HOLD),
    ("holdInstruction", HOLD),
    ("keyTime", 1),
    ("CAkeyTime", 2),
];

/// What was found.
pub struct Found<'a> {
    ready: &'a Ready,
    pub entries: Vec<(Entry, Option<Vec<u8>>)>,
    /// The last CRL that was read.
    crl: Option<LastCrl>,
    /// The number of the last CRL, as a counter says.
    counter: Option<u64>,
    /// Whether a database was read, which has all revocations.
    has_index: bool,
    /// The folders that were read. Links may lead to one again.
    folders: BTreeSet<PathBuf>,
}

impl<'a> Found<'a> {
    pub fn new(ready: &'a Ready) -> Self {
        let folders = BTreeSet::new();
        Self { ready, entries: Vec::new(), crl: None, counter: None, has_index: false, folders }
    }

    /// Reads a file, or a folder with those below it. A file must be of this CA. A folder may have
    /// certificates of others, which are passed over.
    pub fn read(&mut self, path: &Path) -> Result<(), Error> {
        if path.is_dir() { self.folder(path) } else { self.file(path, Wanted::This) }
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        if !self.folders.insert(folder.canonicalize().map_err(Error::io(folder))?) {
            return Ok(());
        }
        let entries = fs::read_dir(folder).map_err(Error::io(folder))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.folder(&path)?;
                }
            } else if path.is_file()
                && (["index.txt", "crlnumber"].contains(&name.as_str())
                    || ["pem", "crt", "cer", "der", "crl"].contains(&ending))
            {
                self.file(&path, Wanted::Any)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, wanted: Wanted) -> Result<(), Error> {
        let file = out::input(path, out::MESSAGE)?;
        let text = String::from_utf8_lossy(&file);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "crlnumber" {
            // The file has the number of the next CRL.
            let next = u64::from_str_radix(text.trim(), 16).ok().filter(|next| *next <= MOST);
            let next = next.ok_or_else(|| damaged(path, "no number of a CRL, or one above 2^63 - 1"))?;
            self.counter = self.counter.max(Some(next.saturating_sub(1)));
            return Ok(());
        }
        if name.ends_with("index.txt") {
            return match self.is_index_of_another(path, &text)? {
                true if wanted == Wanted::Any => Ok(()),
                true => Err(damaged(path, "the certificates beside this list are of another CA")),
                false => self.index(path, &text),
            };
        }
        let crls = read_crls(&file).unwrap_or_default();
        if crls.is_empty() && (name.ends_with(".crl") || text.contains("BEGIN X509 CRL")) {
            return Err(damaged(path, "no CRL, or a damaged one"));
        }
        let mut is_own = false;
        for crl in &crls {
            is_own |= self.crl(path, crl, wanted)?;
        }
        if !is_own && !crls.is_empty() && wanted == Wanted::This {
            return Err(damaged(path, "the CA did not sign this CRL"));
        }
        let wanted = if crls.is_empty() { wanted } else { Wanted::Any };
        let certificates = match (read_certificates(path), wanted) {
            (Err(_), Wanted::Any) => return Ok(()),
            (certificates, _) => certificates?,
        };
        for der in certificates {
            let tbs = Certificate::from_der(&der)?.tbs_certificate;
            if self.is_own(&der)? && tbs.issuer != tbs.subject {
                self.entries.push((entry_of(&der, &self.ready.name, PROFILE)?, Some(der)));
            } else if wanted == Wanted::This {
                return Err(damaged(path, "the CA did not sign this certificate"));
            }
        }
        Ok(())
    }

    fn is_own(&self, der: &[u8]) -> Result<bool, Error> {
        let issuer = Certificate::from_der(der)?.tbs_certificate.issuer.to_string();
        Ok(issuer == self.ready.issuer.subject() && self.ready.has_signed(der)?)
    }

    /// Returns whether the certificates of the database, which has no issuers, are those of another
    /// CA. OpenSSL and easy-rsa keep the certificates beside it. Fails if only some are.
    fn is_index_of_another(&self, path: &Path, text: &str) -> Result<bool, Error> {
        let mut is_own = BTreeSet::new();
        for serial in text.lines().filter_map(|line| line.split('\t').nth(3)) {
            for folder in ["newcerts", "certs_by_serial"] {
                let file = path.with_file_name(folder).join(format!("{serial}.pem"));
                if file.is_file() {
                    is_own.insert(self.is_own(&read_certificate(&file)?)?);
                }
            }
        }
        match is_own.len() {
            2 => Err(damaged(
                path,
                "the CA did not sign some certificates beside this list, or not as it can now",
            )),
            _ => Ok(is_own.contains(&false)),
        }
    }

    /// Returns the last CRL.
    pub fn last_crl(&self) -> Option<LastCrl> {
        self.crl.max(self.counter.map(|number| LastCrl { number, end: None, start: None }))
    }

    /// Returns whether the revocations of the last CRL were read. A counter alone has none. A CRL
    /// that has ended is not the last one: others followed it.
    pub fn is_complete(&self) -> bool {
        let is_last =
            |crl: LastCrl| Some(crl.number) >= self.counter && crl.end.is_none_or(|end| end > now());
        self.has_index || self.crl.is_some_and(is_last)
    }

    /// Reads a CRL of this CA. Returns whether it is one.
    fn crl(&mut self, path: &Path, crl: &CertificateList, wanted: Wanted) -> Result<bool, Error> {
        let list = &crl.tbs_cert_list;
        if list.issuer.to_string() != self.ready.issuer.subject() || !self.ready.has_signed(&crl.to_der()?)? {
            return Ok(false);
        }
        let seconds = |time: &Time| time.to_unix_duration().as_secs() as i64;
        let (start, end) = (Some(seconds(&list.this_update)), list.next_update.as_ref().map(seconds));
        // A CRL of version 1 has no number.
        let number = crl_number(crl).unwrap_or_default();
        if number > MOST {
            return Err(damaged(path, "the number of the CRL is above 2^63 - 1"));
        }
        let revoked = list.revoked_certificates.iter().flatten();
        let mut extensions = revoked.flat_map(|one| &one.crl_entry_extensions).chain(&list.crl_extensions);
        // RFC 5280, 5.2 and 5.3: such a CRL has some of the revocations, or those of another CA.
        if extensions.any(|all| all.iter().any(|one| one.critical)) {
            return match wanted {
                Wanted::Any => Ok(false),
                Wanted::This => Err(damaged(path, "the CRL has a critical extension, so it is no full one")),
            };
        }
        self.crl = self.crl.max(Some(LastCrl { number, end, start }));
        for one in list.revoked_certificates.iter().flatten() {
            let mut extensions = one.crl_entry_extensions.iter().flatten();
            let reason = extensions.find(|extension| extension.extn_id == CrlReason::OID);
            let reason =
                reason.map(|reason| CrlReason::from_der(reason.extn_value.as_bytes())).transpose()?;
            let entry = Entry {
                authority: self.ready.name.clone(),
                serial: hex(one.serial_number.as_bytes()),
                profile: PROFILE.to_owned(),
                revoked: Some(seconds(&one.revocation_date)),
                reason: Some(reason.unwrap_or(CrlReason::Unspecified) as u32),
                ..Entry::default()
            };
            self.entries.push((entry, None));
        }
        Ok(true)
    }

    /// Reads the database of OpenSSL's `ca`, which easy-rsa uses too: lines of six fields.
    fn index(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let entry =
                self.row(line).ok_or_else(|| damaged(path, &format!("line {} is malformed", at + 1)))?;
            self.entries.push((entry, None));
        }
        self.has_index = true;
        Ok(())
    }

    fn row(&self, line: &str) -> Option<Entry> {
        let fields: [&str; 6] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let [state, end, revocation, serial, _, subject] = fields;
        let (revoked, reason) = match state {
            "R" => {
                let mut parts = revocation.split(',');
                let time = seconds(parts.next()?)?;
                let name = parts.next().unwrap_or("unspecified");
                (Some(time), Some(REASONS.iter().find(|(known, _)| *known == name)?.1))
            }
            "V" | "E" => (None, None),
            _ => return None,
        };
        // The parts of a subject follow each other from the root on; in RFC 4514, from the name on.
        let escape =
            |letter: char| if ",+\"<>;".contains(letter) { vec!['\\', letter] } else { vec![letter] };
        let escaped: String = subject.chars().flat_map(escape).collect();
        let parts: Vec<_> = escaped.split('/').filter(|part| !part.is_empty()).rev().collect();
        Some(Entry {
            authority: self.ready.name.clone(),
            serial: number_of(serial).filter(|serial| serial.bytes().any(|digit| digit != b'0'))?,
            subject: parts.join(","),
            profile: PROFILE.to_owned(),
            not_after: Some(seconds(end)?),
            revoked,
            reason,
            ..Entry::default()
        })
    }
}

/// Whether a file must be of this CA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    This,
    Any,
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Caused(Cause::Damaged, format!("{}: {reason}", path.display()))
}

/// Reads a UTCTime or a GeneralizedTime as text.
fn seconds(text: &str) -> Option<i64> {
    let tag = if text.len() == 13 { Tag::UtcTime } else { Tag::GeneralizedTime };
    let time = Time::from_der(&Any::new(tag, text.as_bytes()).ok()?.to_der().ok()?).ok()?;
    i64::try_from(time.to_unix_duration().as_secs()).ok()
}
