//! Reads what another CA program knows about a CA: certificates, the database of
//! OpenSSL's `ca`, its counter and its last CRL.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use der::oid::AssociatedOid;
use der::{Any, Decode, Encode, Tag};
use jeton_client::safe_text::hex;
use jeton_formats::certificate::names;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::CrlReason;
use x509_cert::name::Name;
use x509_cert::time::Time;

use crate::Error;
use crate::authority::{Ready, Signature, entry_of, number_of};
use crate::crl::{crl_number, read_crls};
use crate::file::{self, Source, damaged};
use crate::register::{Entry, HOLD, LastCrl, MOST_NUMBER, now};

/// The longest serial number in DER. The crate makes no CRL with a longer one.
const MOST_SERIAL: usize = 21;
/// What an adopted certificate has in place of a profile.
const PROFILE: &str = "adopted";
/// Folders of OpenSSL and easy-rsa that have no certificates.
const SKIPPED: [&str; 3] = ["private", "reqs", "inline"];
/// The reasons in the database of OpenSSL, and their numbers in RFC 5280, 5.3.1.
const REASONS: [(&str, u32); 11] = [
    ("unspecified", 0),
    ("keyCompromise", 1),
    ("CACompromise", 2),
    ("affiliationChanged", 3),
    ("superseded", 4),
    ("cessationOfOperation", 5),
    ("certificateHold", HOLD),
    // Clients differ about this reason in a full CRL.
    ("removeFromCRL", 0),
    ("holdInstruction", HOLD),
    ("keyTime", 1),
    ("CAkeyTime", 2),
];

/// What was found.
pub struct Found<'a> {
    ready: &'a Ready<'a>,
    entries: Vec<(Entry, Option<Vec<u8>>)>,
    /// The certificates that a CRL has on hold, with its number. A later one may release them.
    held: Vec<(u64, Entry)>,
    /// The last CRL that was read.
    crl: Option<LastCrl>,
    /// The number of the last CRL, as a counter says.
    counter: Option<u64>,
    /// The numbers of a database, which has all revocations.
    listed: Option<BTreeSet<String>>,
    /// The numbers of the certificates of this CA in folders: a database without one is not the
    /// last one.
    found: BTreeSet<String>,
    /// The folders that were read. Links may lead to one again.
    folders: BTreeSet<PathBuf>,
    /// Certificates with the name of this CA whose signature cannot be verified, with their files
    /// and the reasons.
    unverified: Vec<(PathBuf, Vec<u8>, String)>,
    /// What the operator should know.
    warnings: Vec<String>,
}

impl<'a> Found<'a> {
    /// Begins with nothing.
    pub fn new(ready: &'a Ready<'a>) -> Self {
        Self {
            ready,
            entries: Vec::new(),
            held: Vec::new(),
            crl: None,
            counter: None,
            listed: None,
            found: BTreeSet::new(),
            folders: BTreeSet::new(),
            unverified: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads files, and folders with those below them. A file must be of this CA. A folder may have
    /// certificates of others, which are passed over.
    pub fn read(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        paths.iter().try_for_each(|path| self.source(path))?;
        self.settle()
    }

    fn source(&mut self, path: &Path) -> Result<(), Error> {
        if !path.is_dir() {
            return self.file(path, Wanted::This);
        }
        let sum = |found: &Self| found.entries.len() + found.held.len();
        let (before, crl) = (sum(self), self.crl);
        self.folder(path)?;
        if sum(self) == before && self.crl == crl && self.unverified.is_empty() {
            self.warnings.push(format!("{} has nothing of this CA", path.display()));
        }
        Ok(())
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
        let source = if wanted == Wanted::This { Source::Named } else { Source::Found };
        let file = file::read(path, source, file::LONGEST)?;
        let text = String::from_utf8_lossy(&file);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "crlnumber" {
            // The file has the number of the next CRL.
            let next = u64::from_str_radix(text.trim(), 16).ok().filter(|next| *next <= MOST_NUMBER);
            let next = next.ok_or_else(|| damaged(path, "no number of a CRL, or one above 2^62"))?;
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
        // Blocks with another label than that of RFC 7468 are not read.
        let has_crl = ["CRL-----", "REVOCATION LIST-----"].iter().any(|label| text.contains(label));
        if crls.is_empty() && (name.ends_with(".crl") || has_crl) {
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
        let certificates = match (file::certificates_in(path, &file), wanted) {
            (Err(_), Wanted::Any) => return Ok(()),
            (certificates, _) => certificates?,
        };
        for der in certificates {
            match self.signature(&der)? {
                Signature::Own if !is_self_issued(&der)? => self.certificate(path, der, wanted)?,
                // The operator vouches for a database beside it, which names its number.
                Signature::Unsupported(reason) if wanted == Wanted::Any && !is_self_issued(&der)? => {
                    self.unverified.push((path.to_owned(), der, reason));
                }
                Signature::Unsupported(reason) if wanted == Wanted::This => {
                    let text = format!(
                        "{reason}; adopt it in a folder beside the database index.txt that has its number"
                    );
                    return Err(damaged(path, &text));
                }
                _ if wanted == Wanted::This => {
                    return Err(damaged(path, "the CA did not sign this certificate"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds a certificate of this CA.
    fn certificate(&mut self, path: &Path, der: Vec<u8>, wanted: Wanted) -> Result<(), Error> {
        let entry = entry_of(&der, &self.ready.name, PROFILE)?;
        if wanted == Wanted::Any {
            self.found.insert(entry.serial.clone());
        }
        if entry.serial.len() <= 2 * MOST_SERIAL {
            self.entries.push((entry, Some(der)));
            return Ok(());
        }
        // RFC 5280, 4.1.2.2.
        let text = "the serial number has more than 20 bytes, so this program cannot revoke the certificate";
        match wanted {
            Wanted::This => Err(damaged(path, text)),
            Wanted::Any => {
                self.warnings.push(format!("{}: {text}; it is left out", path.display()));
                Ok(())
            }
        }
    }

    /// Reads only the issuer: a certificate may have what the crate cannot read.
    fn signature(&self, der: &[u8]) -> Result<Signature, Error> {
        match Name::from_der(&names(der)?.issuer) {
            Ok(issuer) if self.ready.issuer.is_called(&issuer) => self.ready.signature(der),
            _ => Ok(Signature::Foreign),
        }
    }

    /// Adds the certificates whose signature cannot be verified, if a database has their number.
    /// Others get a warning.
    fn settle(&mut self) -> Result<(), Error> {
        for (path, der, reason) in std::mem::take(&mut self.unverified) {
            let serial = entry_of(&der, "", "")?.serial;
            if self.listed.as_ref().is_some_and(|listed| listed.contains(&serial)) {
                self.certificate(&path, der, Wanted::Any)?;
            } else {
                let text = "no database has its number, so it is left out";
                self.warnings.push(format!("{}: {reason}; {text}", path.display()));
            }
        }
        Ok(())
    }

    /// Returns whether the certificates of the database, which has no issuers, are those of another
    /// CA. OpenSSL and easy-rsa keep the certificates beside it. Fails if only some are.
    fn is_index_of_another(&mut self, path: &Path, text: &str) -> Result<bool, Error> {
        let listed: BTreeSet<_> = text.lines().filter_map(|line| line.split('\t').nth(3)).collect();
        let mut is_own = BTreeSet::new();
        for folder in ["newcerts", "certs_by_serial"] {
            for entry in fs::read_dir(path.with_file_name(folder)).into_iter().flatten().flatten() {
                let file = entry.path();
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                let is_listed = listed.contains(&*stem);
                if file.extension().is_none_or(|ending| ending != "pem") || !file.is_file() {
                    continue;
                }
                let der = match file::certificate(&file, Source::Found) {
                    Err(_) if !is_listed => continue,
                    der => der?,
                };
                // The database vouches for one whose signature cannot be verified.
                let own = match self.signature(&der)? {
                    Signature::Own => true,
                    Signature::Unsupported(_) => is_listed,
                    Signature::Foreign => false,
                };
                if own && !is_self_issued(&der)? {
                    self.found.insert(entry_of(&der, "", "")?.serial);
                }
                if is_listed {
                    is_own.insert(own);
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

    /// Returns what was found. Certificates know more than the lists, so they are the first.
    /// `known` is the number of the last CRL of the list: an earlier CRL puts no certificate on
    /// hold again.
    pub fn into_entries(self, known: u64) -> Vec<(Entry, Option<Vec<u8>>)> {
        let newest = self.crl.map_or(known, |crl| crl.number.max(known));
        let held = self.held.into_iter().filter(|(number, _)| *number >= newest);
        let mut entries: Vec<_> = self.entries.into_iter().chain(held.map(|(_, one)| (one, None))).collect();
        entries.sort_by_key(|(_, der)| der.is_none());
        entries
    }

    /// Returns what the operator should know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
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
        self.listed.is_some() && self.unlisted() == 0 || self.crl.is_some_and(is_last)
    }

    /// Returns how many certificates of this CA in folders the database lacks, if one was read. It
    /// may lack revocations too.
    pub fn unlisted(&self) -> usize {
        self.listed.as_ref().map_or(0, |listed| self.found.difference(listed).count())
    }

    /// Reads a CRL of this CA. Returns whether it is one.
    fn crl(&mut self, path: &Path, crl: &CertificateList, wanted: Wanted) -> Result<bool, Error> {
        let list = &crl.tbs_cert_list;
        if !self.ready.issuer.is_called(&list.issuer) {
            return Ok(false);
        }
        match self.ready.signature(&crl.to_der().map_err(Error::damaged)?)? {
            Signature::Own => {}
            Signature::Foreign => return Ok(false),
            Signature::Unsupported(reason) => return Err(damaged(path, &format!("the CRL has {reason}"))),
        }
        let seconds = |time: &Time| time.to_unix_duration().as_secs() as i64;
        let (start, end) = (Some(seconds(&list.this_update)), list.next_update.as_ref().map(seconds));
        // A CRL of version 1 has no number.
        let number = crl_number(crl).unwrap_or_default();
        if number > MOST_NUMBER {
            return Err(damaged(path, "the number of the CRL is above 2^62"));
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
            let reason = reason.map(|reason| CrlReason::from_der(reason.extn_value.as_bytes()));
            let reason = reason.transpose().map_err(Error::damaged)?;
            let entry = Entry {
                authority: self.ready.name.clone(),
                serial: hex(one.serial_number.as_bytes()),
                profile: PROFILE.to_owned(),
                revoked: Some(seconds(&one.revocation_date)),
                reason: Some(reason.unwrap_or(CrlReason::Unspecified) as u32),
                ..Entry::default()
            };
            match entry.reason {
                Some(HOLD) => self.held.push((number, entry)),
                _ => self.entries.push((entry, None)),
            }
        }
        Ok(true)
    }

    /// Reads the database of OpenSSL's `ca`, which easy-rsa uses too: lines of six fields.
    fn index(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let entry =
                self.row(line).ok_or_else(|| damaged(path, &format!("line {} is malformed", at + 1)))?;
            self.listed.get_or_insert_default().insert(entry.serial.clone());
            self.entries.push((entry, None));
        }
        self.listed.get_or_insert_default();
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

fn is_self_issued(der: &[u8]) -> Result<bool, Error> {
    let names = names(der)?;
    Ok(names.issuer == names.subject)
}

/// Whether a file must be of this CA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    This,
    Any,
}

/// Reads a UTCTime or a GeneralizedTime as text.
fn seconds(text: &str) -> Option<i64> {
    let tag = if text.len() == 13 { Tag::UtcTime } else { Tag::GeneralizedTime };
    let time = Time::from_der(&Any::new(tag, text.as_bytes()).ok()?.to_der().ok()?).ok()?;
    i64::try_from(time.to_unix_duration().as_secs()).ok()
}
