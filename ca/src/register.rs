//! The list of the certificates that a CA issued: an SQLite file.
//!
//! One file may have several CAs. A row of the table `authority` binds the list to the subject, the
//! key and the certificate of a CA. A certificate is in the list before anyone gets it, so every
//! certificate can be revoked. Only [`Register::create`] makes a list: a CA without its list knows
//! no revocation, so every other function fails.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jeton_client::safe_text::shown;
use jeton_formats::certificate::{public_key_of, split};
use jeton_formats::secret_identities;
use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior, params};

use crate::{Cause, Error, Rules, issuer};

/// How long to wait for another process that writes to the list.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for other processes that make CRLs.
const PATIENCE_CRL: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// The highest number of a CRL that an operator or another CA program chooses. Numbers of the list
/// follow it, up to 2^63 - 1.
pub const MOST_NUMBER: u64 = 1 << 62;
/// The number of the reason `certificateHold` in RFC 5280, 5.3.1.
pub const HOLD: u32 = 6;

/// A list has exactly these tables: a trigger of someone else could take a revocation back.
const SCHEMA: &str = include_str!("register.sql");

/// The value of the column `unsure` in a list that is known to be old, such as one of a backup.
/// Otherwise it is 0 or 1.
const RESTORED: i64 = 2;
const UNSURE: &str = "the CA may have signed CRLs that the list does not know, so revoked certificates would be valid \
    again; `jeton ca adopt` reads the last CRL, and `jeton crl --number` gives the number if there is none";

/// The columns of an [`Entry`].
const ENTRY: &str =
    "SELECT c.id, authority, serial, c.subject, a.subject, names, profile, not_before, not_after,
    revoked, reason, remark FROM certificate c JOIN authority a ON a.id = authority";

/// An open list.
pub struct Register {
    connection: Connection,
    path: PathBuf,
    rules: Rules,
    /// The [`state`] of the file that is open.
    file: [i64; 4],
    /// What SQLite calls the version of the data, and how often it or the file changed.
    version: (i64, u64),
}

/// A CA of the list.
#[derive(Clone, Debug)]
pub struct Ca {
    /// The name of the CA in the list. It depends on the subject and the key of the CA.
    pub id: String,
    /// The subject in the form of RFC 4514.
    pub subject: String,
    /// The certificate in DER.
    pub certificate: Vec<u8>,
    /// The certificates above, one after the other.
    pub above: Vec<u8>,
    /// The number of the last CRL, or 0.
    pub crl_number: u64,
    /// When the last CRL ends, in seconds since 1970.
    pub crl_end: Option<i64>,
    /// The file that got the last CRL, if the list knows one.
    pub crl_file: Option<String>,
    /// Whether the CA may have signed CRLs that the list does not know.
    pub unsure: bool,
}

/// A CRL of another CA program, or its number alone. The order is that of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastCrl {
    /// Its number.
    pub number: u64,
    /// Its `nextUpdate`, in seconds since 1970.
    pub end: Option<i64>,
    /// Its `thisUpdate`, in seconds since 1970.
    pub start: Option<i64>,
}

/// A certificate of the list. One that was taken from another CA program may lack some facts.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The number of the row.
    pub id: i64,
    /// The CA, as [`Ca::id`].
    pub authority: String,
    /// The serial number in hexadecimal digits, as in DER.
    pub serial: String,
    /// The subject in the form of RFC 4514.
    pub subject: String,
    /// The subject of the CA.
    pub issuer: String,
    /// The other names in the form of the command line, with spaces between them.
    pub names: String,
    /// The name of the profile.
    pub profile: String,
    /// The first second of its validity, since 1970.
    pub not_before: Option<i64>,
    /// The last second of its validity, since 1970.
    pub not_after: Option<i64>,
    /// The second when the CA revoked it, since 1970.
    pub revoked: Option<i64>,
    /// The number of the reason in RFC 5280, 5.3.1.
    pub reason: Option<u32>,
    /// What the request asked for and did not get.
    pub remark: Option<String>,
}

/// Which certificates of a key are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// All of them.
    All,
    /// Those that were revoked with the reason keyCompromise or cACompromise.
    Compromised,
}

impl Entry {
    /// Returns `valid`, `expired`, `held` or `revoked`.
    pub fn status(&self) -> &'static str {
        match self.revoked {
            Some(_) if self.reason == Some(HOLD) => "held",
            Some(_) => "revoked",
            None if self.not_after.is_some_and(|end| end < now()) => "expired",
            None => "valid",
        }
    }
}

impl Register {
    /// Opens the list, and makes the file if it does not exist. Only its owner may read a new file.
    pub fn create(path: &Path, rules: Rules) -> Result<Self, Error> {
        let is_new = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io(path)(error)),
            new => new.is_ok(),
        };
        let mut register = Self::connect(path, rules).inspect_err(|_| {
            // An empty file is no list, so the next command would fail.
            let _ = is_new.then(|| std::fs::remove_file(path));
        })?;
        register.write(|transaction| {
            let tables: i64 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 { transaction.execute_batch(SCHEMA) } else { Ok(()) }
        })?;
        register.check()?;
        Ok(register)
    }

    /// Opens a list that exists. Fails if it is not one, or if another user may write to it.
    pub fn open(path: &Path, rules: Rules) -> Result<Self, Error> {
        let register = Self::connect(path, rules)?;
        register.check()?;
        Ok(register)
    }

    /// Returns a number that changes when another process changes the list: what was read since it
    /// last changed is still so. Opens the list again if the file changed: SQLite does not see
    /// another file of this name, nor a change by a program that is not SQLite.
    pub fn version(&mut self) -> Result<u64, Error> {
        let data = std::fs::metadata(&self.path).map_err(Error::io(&self.path))?;
        let (_, changes) = self.version;
        if self.file != state(&data) {
            *self = Self { version: (0, changes + 1), ..Self::open(&self.path, self.rules)? };
        }
        let read = || self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0));
        let version = self.done(read())?;
        if version != self.version.0 {
            self.version = (version, self.version.1 + 1);
        }
        Ok(self.version.1)
    }

    /// Until the end of this transaction, all that is read is of one moment.
    pub fn moment(&self) -> Result<Transaction<'_>, Error> {
        self.done(self.connection.unchecked_transaction())
    }

    /// Fails if the CA may have revoked certificates that the list does not know.
    pub fn expect_sure(&self, id: &str) -> Result<(), Error> {
        if self.authority(id)?.unsure { Err(Cause::Refused.error(UNSURE)) } else { Ok(()) }
    }

    /// Fails if the list has this certificate of a CA as revoked or held.
    pub fn expect_good(&self, authority: &str, serial: &str) -> Result<(), Error> {
        match self.find(authority, serial)?.filter(|entry| entry.revoked.is_some()) {
            None => Ok(()),
            Some(entry) => {
                let text = format!("the certificate {serial} of {} is {}", entry.subject, entry.status());
                Err(Error::Caused(Cause::Refused, text))
            }
        }
    }

    /// Fails if the list does not know a CRL with this number, which is in `file`: the list is
    /// older than the CRL. It is marked so, and then signs nothing until `ca adopt` has read the
    /// CRL. The caller reads the file before: another process writes a number to the list first.
    pub fn expect_known(&self, id: &str, number: u64, file: &Path) -> Result<(), Error> {
        const MARK: &str = "UPDATE authority SET unsure = ?3 WHERE id = ?1 AND crl_number < ?2";
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        if self.done(self.connection.execute(MARK, params![id, number, RESTORED]))? == 0 {
            return Ok(());
        }
        let file = shown(&file.display().to_string());
        Err(Cause::Refused.error(format!(
            "the list is older than the CRL {number} in {file}, and may lack revocations; `jeton ca adopt {file}` reads it"
        )))
    }

    /// Returns whether there is no list. A list that this process cannot look at is not missing:
    /// opening it fails.
    pub fn is_missing(path: &Path) -> bool {
        path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn connect(path: &Path, rules: Rules) -> Result<Self, Error> {
        let data = (rules.open)(path).and_then(|file| file.metadata());
        let data = data.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::Caused(
                Cause::NotFound,
                format!(
                    "there is no list {}; --issued names it, and `jeton ca init` makes it",
                    path.display()
                ),
            ),
            _ => Error::io(path)(error),
        })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::fs::metadata(folder).map_err(Error::io(folder))?;
        if let Some(reason) = foreign(&data, &folder) {
            return Err(Error::Caused(Cause::NotPermitted, format!("{}: {reason}", path.display())));
        }
        let connect = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON")?;
            Ok(connection)
        };
        let connection = connect().map_err(|source| Error::List { path: path.to_owned(), source })?;
        Ok(Self { connection, path: path.to_owned(), rules, file: state(&data), version: (0, 0) })
    }

    /// Fails unless the file has the tables of a list, and nothing else.
    fn check(&self) -> Result<(), Error> {
        let read = |connection: &Connection| -> rusqlite::Result<Vec<(String, Option<String>)>> {
            let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let wanted = Connection::open_in_memory().and_then(|connection| {
            connection.execute_batch(SCHEMA)?;
            read(&connection)
        });
        if self.done(read(&self.connection))? == self.done(wanted)? {
            return Ok(());
        }
        let text = format!("{} is not a list of issued certificates, or it was altered", self.path.display());
        Err(Error::Caused(Cause::Damaged, text))
    }

    /// Until the end of this transaction, no other process changes the list.
    fn transaction(&self) -> Result<Transaction<'_>, Error> {
        self.done(Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate))
    }

    /// Runs a change in one transaction.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        let run = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(|source| Error::List { path: self.path.clone(), source })
    }

    /// Adds a CA, or gives a known one this certificate and the certificates above.
    pub fn add_authority(&mut self, ca: &Ca) -> Result<(), Error> {
        const ADD: &str =
            "INSERT INTO authority (id, subject, certificate, above, unsure) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (id) DO UPDATE SET certificate = excluded.certificate, above = excluded.above";
        let Ca { id, subject, certificate, above, unsure, .. } = ca;
        self.write(|list| list.execute(ADD, params![id, subject, certificate, above, unsure])).map(drop)
    }

    /// Returns the CAs of the list.
    pub fn authorities(&self) -> Result<Vec<Ca>, Error> {
        const ALL: &str =
            "SELECT id, subject, certificate, above, crl_number, crl_end, crl_file, unsure FROM authority";
        let ca = |row: &Row<'_>| {
            Ok(Ca {
                id: row.get(0)?,
                subject: row.get(1)?,
                certificate: row.get(2)?,
                above: row.get(3)?,
                crl_number: row.get(4)?,
                crl_end: row.get(5)?,
                crl_file: row.get(6)?,
                unsure: row.get(7)?,
            })
        };
        self.done((|| self.connection.prepare_cached(ALL)?.query_map([], ca)?.collect())())
    }

    /// Returns the CA with this name in the list.
    pub fn authority(&self, id: &str) -> Result<Ca, Error> {
        self.authorities()?.into_iter().find(|ca| ca.id == id).ok_or_else(|| {
            let text = format!("{} does not have this CA; `jeton ca init` adds it", self.path.display());
            Error::Caused(Cause::NotFound, text)
        })
    }

    /// Adds a certificate that the CA signed. No other process changes the list between `check` and
    /// the new row.
    pub fn add(
        &self,
        entry: &Entry,
        der: &[u8],
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let list = self.transaction()?;
        check()?;
        self.done(insert(&list, "", entry, Some(der)).and_then(|_| list.commit()))
    }

    /// Adds what another CA program knew: certificates, and the number of the last CRL and its end.
    /// A certificate that is revoked in the list stays revoked. One that is on hold may be revoked
    /// for good, and one that was revoked for another reason may turn out to be compromised. The CA
    /// is sure only if `complete` says that the revocations of that CRL are among them, and the CRL
    /// is later than the last one of the list: one that the list knew says nothing of others. A new
    /// list also believes a counter that was never used. Returns how many are new, and the
    /// certificates whose number another one has: that one gets a remark, and the later end of
    /// both.
    pub fn adopt(
        &mut self,
        id: &str,
        found: &[(Entry, Option<Vec<u8>>)],
        crl: Option<LastCrl>,
        complete: bool,
    ) -> Result<(usize, Vec<Entry>), Error> {
        const MERGE: &str = "ON CONFLICT (authority, serial) DO UPDATE SET der = COALESCE(der, excluded.der),
            subject = COALESCE(NULLIF(subject, ''), excluded.subject),
            names = COALESCE(NULLIF(names, ''), excluded.names),
            not_before = COALESCE(not_before, excluded.not_before),
            not_after = COALESCE(not_after, excluded.not_after),
            reason = CASE WHEN revoked IS NULL OR reason = 6 AND excluded.revoked IS NOT NULL
                OR excluded.reason IN (1, 2) AND reason NOT IN (1, 2) THEN excluded.reason ELSE reason END,
            revoked = COALESCE(revoked, excluded.revoked)";
        const TWIN: &str = "UPDATE certificate SET der = ?3, not_after = max(not_after, ?5),
            remark = CASE WHEN instr(COALESCE(remark, ''), ?4) THEN remark ELSE COALESCE(remark || '; ', '') || ?4 END
            WHERE authority = ?1 AND serial = ?2";
        const OWN: &str = "SELECT der FROM certificate WHERE authority = ?1 AND serial = ?2";
        const LAST: &str = "SELECT crl_number, crl_start, unsure = ?2 FROM authority WHERE id = ?1";
        const KNOWN: &str = "UPDATE authority SET crl_number = ?2, crl_end = ?3, crl_start = ?4,
            unsure = unsure AND NOT ?5 WHERE id = ?1";
        self.write(|list| {
            let count =
                || list.query_row("SELECT count(*) FROM certificate", [], |row| row.get::<_, usize>(0));
            let before = count()?;
            let mut twins = Vec::new();
            for (entry, der) in found {
                insert(list, MERGE, entry, der.as_deref())?;
                let Some(der) = der else { continue };
                let of_number = params![entry.authority, entry.serial];
                let mut all: Vec<u8> = list.prepare_cached(OWN)?.query_row(of_number, |row| row.get(0))?;
                let own = split(&all).unwrap_or_default();
                if own.first() == Some(&&der[..]) {
                    continue;
                }
                if !own.contains(&&der[..]) {
                    all.extend(der);
                }
                let remark = format!("{} has this number too", entry.subject);
                let values = params![entry.authority, entry.serial, all, remark, entry.not_after];
                list.prepare_cached(TWIN)?.execute(values)?;
                twins.push(entry.clone());
            }
            let last = |row: &Row<'_>| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
            let (last, is_restored): ((i64, Option<i64>), bool) =
                list.query_row(LAST, params![id, RESTORED], last)?;
            // A counter that was never used says so of a new list, but not of one that was lost.
            let is_first = last == (0, None) && !is_restored;
            // Some CAs make CRLs without numbers, which count as 0.
            if let Some(LastCrl { number, end, start }) = crl
                && ((number as i64, start) > last || is_first && (number, start) == (0, None))
            {
                list.execute(KNOWN, params![id, number as i64, end, start, complete])?;
            }
            Ok((count()? - before, twins))
        })
    }

    /// Returns all certificates of a CA, or of all CAs: the oldest first.
    pub fn entries(&self, authority: Option<&str>) -> Result<Vec<Entry>, Error> {
        self.select("WHERE ?1 IS NULL OR authority = ?1 ORDER BY c.id", params![authority])
    }

    /// Returns the certificate of a CA with this number.
    pub fn find(&self, authority: &str, serial: &str) -> Result<Option<Entry>, Error> {
        Ok(self.select("WHERE authority = ?1 AND serial = ?2", params![authority, serial])?.pop())
    }

    fn select(&self, filter: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Vec<Entry>, Error> {
        self.done(select(&self.connection, filter, values))
    }

    /// Returns the certificate of an entry. One that was adopted from a CRL alone has none.
    pub fn der(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        self.ders(entry)?.into_iter().next().ok_or_else(|| {
            Error::Caused(Cause::NotFound, format!("the list knows only the number of {}", entry.serial))
        })
    }

    /// Returns all certificates with the number of an entry: another CA program may have given it
    /// to several. The column has one after the other.
    pub fn ders(&self, entry: &Entry) -> Result<Vec<Vec<u8>>, Error> {
        const DER: &str = "SELECT der FROM certificate WHERE id = ?1";
        let der = self.connection.query_row(DER, [entry.id], |row| row.get::<_, Option<Vec<u8>>>(0));
        Ok(split(&self.done(der)?.unwrap_or_default())?.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Returns the certificates of the keys that have a secret of this public key, or whose secret
    /// its owner can compute, of all CAs. A composite key has the secrets of its components. Of the
    /// compromised ones, also those that cannot be read. The key of a certificate that was adopted
    /// from a CRL alone is unknown.
    pub fn of_key(&self, info: &[u8], which: Of) -> Result<Vec<Entry>, Error> {
        const ALL: &str = "SELECT id, der FROM certificate
            WHERE der IS NOT NULL AND (?1 OR revoked IS NOT NULL AND reason IN (1, 2)) ORDER BY id";
        let secrets = secret_identities(info);
        // A row that cannot be read may have the key.
        let is_of_key = |der: &&[u8]| match public_key_of(der) {
            Ok(own) => self.rules.have_common_secret(&secret_identities(&own), &secrets),
            Err(_) => which == Of::Compromised,
        };
        let has_key = |all: &[u8]| {
            let all = split(all).unwrap_or_default();
            all.is_empty() && which == Of::Compromised || all.iter().any(is_of_key)
        };
        let found = || -> rusqlite::Result<Vec<i64>> {
            let mut statement = self.connection.prepare_cached(ALL)?;
            let mut rows = statement.query([which == Of::All])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if has_key(row.get_ref(1)?.as_blob()?) {
                    found.push(row.get(0)?);
                }
            }
            Ok(found)
        };
        let mut entries = Vec::new();
        for id in self.done(found())? {
            entries.extend(self.select("WHERE c.id = ?1", params![id])?);
        }
        Ok(entries)
    }

    /// Returns the compromised certificates of a CA whose keys the list does not know: it cannot
    /// refuse these keys.
    pub fn of_unknown_keys(&self, id: &str) -> Result<Vec<Entry>, Error> {
        self.select("WHERE authority = ?1 AND der IS NULL AND reason IN (1, 2) ORDER BY c.id", params![id])
    }

    /// Fails if a certificate of this public key, of any CA and any name, was revoked because the
    /// key was compromised.
    pub fn expect_secret(&self, info: &[u8]) -> Result<(), Error> {
        match self.of_key(info, Of::Compromised)?.first() {
            None => Ok(()),
            Some(entry) if !self.has_keys(entry) => Err(Cause::Damaged.error(format!(
                "the certificate {} of {}, whose key was compromised, is damaged in the list, so no key is known to be \
                another one",
                entry.serial, entry.subject
            ))),
            Some(entry) => Err(Cause::Refused.error(format!(
                "the key shares a secret with that of the certificate {} of {}, which was revoked because the key was \
                compromised; the holder needs a new key",
                entry.serial, entry.subject
            ))),
        }
    }

    /// Returns whether the keys of all certificates of an entry can be read.
    fn has_keys(&self, entry: &Entry) -> bool {
        let all = self.ders(entry).unwrap_or_default();
        !all.is_empty() && all.iter().all(|der| public_key_of(der).is_ok())
    }

    /// Revokes a certificate. A held one may be revoked for good, and one that was revoked for
    /// another reason may turn out to be compromised. Returns its new entry.
    pub fn revoke(&mut self, entry: &Entry, reason: u32) -> Result<Entry, Error> {
        const REVOKE: &str = "UPDATE certificate SET revoked = COALESCE(revoked, ?2), reason = ?3
            WHERE id = ?1 AND (revoked IS NULL OR reason = ?4 AND ?3 <> ?4 OR ?3 IN (1, 2) AND reason NOT IN (1, 2))";
        let changed = self.write(|list| list.execute(REVOKE, params![entry.id, now(), reason, HOLD]))?;
        self.changed(changed, entry, "is revoked already")
    }

    /// Makes a held certificate valid again. Returns its new entry. Fails if its key was
    /// compromised in another certificate.
    pub fn release(&mut self, entry: &Entry) -> Result<Entry, Error> {
        const RELEASE: &str =
            "UPDATE certificate SET revoked = NULL, reason = NULL WHERE id = ?1 AND reason = ?2";
        let list = self.transaction()?;
        let changed = self.done(list.execute(RELEASE, params![entry.id, HOLD]))?;
        // One that was adopted from a CRL alone has no known key.
        for der in self.ders(entry)?.iter().filter(|_| changed == 1) {
            self.expect_secret(&public_key_of(der)?)?;
        }
        self.done(list.commit())?;
        self.changed(changed, entry, "is not on hold")
    }

    fn changed(&self, count: usize, entry: &Entry, otherwise: &str) -> Result<Entry, Error> {
        match self.find(&entry.authority, &entry.serial)? {
            Some(entry) if count == 1 => Ok(entry),
            _ => Err(Error::Caused(Cause::Exists, format!("the certificate {} {otherwise}", entry.serial))),
        }
    }

    /// Counts a CRL of this CA with this lifetime in seconds. `make` gets its number, which is
    /// above all known ones, its start, and the revoked certificates of the same moment. If it
    /// fails, the CRL does not count. `publish` gets what it made, and the turn: no other process
    /// makes a CRL until that is dropped, so no CRL is published after one with a higher number.
    /// `least` is the operator's word: without it, this fails if the CA may have signed CRLs that
    /// the list does not know, or if the last one starts later. `file` is remembered as the place
    /// of the CRL, so that a list that is older than the CRL is noticed. With `least`, the earlier
    /// place is forgotten.
    pub fn next_crl<T, U, E: From<Error>>(
        &mut self,
        id: &str,
        least: Option<u64>,
        lifetime: i64,
        file: Option<&str>,
        make: impl FnOnce(u64, i64, &[Entry]) -> Result<T, E>,
        publish: impl FnOnce(u64, T, File) -> Result<U, E>,
    ) -> Result<U, E> {
        const LAST: &str = "SELECT crl_number, crl_start, unsure FROM authority WHERE id = ?1";
        const NEXT: &str =
            "UPDATE authority SET crl_number = ?2, crl_start = ?3, crl_end = ?4, crl_file = CASE WHEN ?5 THEN NULL ELSE crl_file END,
            unsure = 0 WHERE id = ?1";
        const PLACE: &str = "UPDATE authority SET crl_file = ?2 WHERE id = ?1";
        let refused = |text: String| Ok(Err(Cause::Refused.error(text).into()));
        self.authority(id)?;
        let turn = self.turn()?;
        let (number, made) = self.write(|list| {
            let (last, last_start, unsure): (i64, Option<i64>, bool) =
                list.query_row(LAST, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let start = now();
            if let Some(ahead) = last_start.map(|last| last - start)
                && ahead > 0
                && least.is_none()
            {
                return refused(format!(
                    "the last CRL starts {ahead} seconds later than the clock says, so clients may not take an earlier \
                    one; set the clock, or give the number with --number"
                ));
            }
            let last = last.unsigned_abs();
            let number = least.unwrap_or(last + 1);
            if unsure && least.is_none() {
                return refused(UNSURE.to_owned());
            }
            if number <= last {
                return refused(format!(
                    "the last CRL has the number {last}; the next one needs a higher one"
                ));
            }
            if least.is_some_and(|least| least > MOST_NUMBER) || number > i64::MAX as u64 {
                return refused(format!("a CRL with the number {number} leaves no numbers for later ones"));
            }
            let revoked =
                select(list, "WHERE authority = ?1 AND revoked IS NOT NULL ORDER BY c.id", params![id])?;
            let made = make(number, start, &revoked);
            if made.is_ok() {
                let values = params![id, number as i64, start, start + lifetime, least.is_some()];
                list.execute(NEXT, values)?;
            }
            Ok(made.map(|made| (number, made)))
        })??;
        let published = publish(number, made, turn)?;
        if let Some(file) = file {
            // Earlier, a command that is killed would leave a place without a CRL.
            self.done(self.connection.execute(PLACE, params![id, file]))?;
        }
        Ok(published)
    }

    /// Waits until no other process makes a CRL of this list. The next process may go on when the
    /// file is dropped, or when this process ends. SQLite uses locks of another kind.
    fn turn(&self) -> Result<File, Error> {
        let file = (self.rules.open)(&self.path).map_err(Error::io(&self.path))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(Error::io(&self.path)(error)),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE_CRL => sleep(POLL),
                Err(TryLockError::WouldBlock) => {
                    let path = self.path.display();
                    let text =
                        format!("another process makes a CRL from {path} and does not end; no CRL was made");
                    return Err(Cause::Other.error(text));
                }
            }
        }
    }

    /// Copies the list into a new file, as one moment shows it.
    pub fn copy(&self, to: &Path) -> Result<(), Error> {
        self.done(self.connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])).map(drop)
    }

    /// Marks a copy as old: the CAs may have signed CRLs since then.
    pub fn mark_restored(&mut self) -> Result<(), Error> {
        self.write(|list| list.execute("UPDATE authority SET unsure = ?1", [RESTORED])).map(drop)
    }

    fn done<T>(&self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|source| Error::List { path: self.path.clone(), source })
    }
}

fn insert(list: &Connection, conflict: &str, entry: &Entry, der: Option<&[u8]>) -> rusqlite::Result<usize> {
    let sql = format!(
        "INSERT INTO certificate (authority, serial, profile, subject, names, not_before, not_after, revoked, reason,
            remark, der) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) {conflict}"
    );
    let Entry { authority, serial, profile, subject, names, .. } = entry;
    let Entry { not_before, not_after, revoked, reason, remark, .. } = entry;
    let values = params![
        authority, serial, profile, subject, names, not_before, not_after, revoked, reason, remark, der
    ];
    list.prepare_cached(&sql)?.execute(values)
}

fn select(list: &Connection, filter: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<Vec<Entry>> {
    list.prepare_cached(&format!("{ENTRY} {filter}"))?.query_map(values, entry)?.collect()
}

/// Returns what changes if another file gets the name, or if a program writes to the file.
fn state(file: &Metadata) -> [i64; 4] {
    [file.dev() as i64, file.ino() as i64, file.ctime(), file.ctime_nsec()]
}

/// Returns why another user could have written to the list, or `None`.
fn foreign(file: &Metadata, folder: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = [0, own].contains(&file.uid()) || own == 0 && file.uid() == folder.uid();
    if !is_trusted {
        return Some(format!("the list belongs to the user {}", file.uid()));
    }
    let is_shared = folder.mode() & 0o2020 == 0o2020;
    let writers = if is_shared { 0o002 } else { 0o022 };
    // SQLite writes the pages of a journal beside the list into it, also of a foreign journal.
    [("the list", file), ("the folder of the list", folder)].into_iter().find_map(|(what, data)| {
        let mode = data.mode() & 0o777;
        (mode & writers != 0).then(|| format!("other users may write to {what}: mode {mode:o}"))
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: row.get(0)?,
        authority: row.get(1)?,
        serial: row.get(2)?,
        subject: row.get(3)?,
        issuer: row.get(4)?,
        names: row.get(5)?,
        profile: row.get(6)?,
        not_before: row.get(7)?,
        not_after: row.get(8)?,
        revoked: row.get(9)?,
        reason: row.get(10)?,
        remark: row.get(11)?,
    })
}

/// Returns the seconds since 1970.
pub fn now() -> i64 {
    issuer::now() as i64
}
