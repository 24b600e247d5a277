//! The list of the certificates that a CA issued: an SQLite file.
//!
//! One file may have the certificates of several CAs, which their key identifiers tell apart. A
//! certificate is in the list before anyone gets it, so every certificate can be revoked.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use crate::{Cause, Error};

/// How long to wait for another process that writes to the list.
const PATIENCE: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS authority (
    key_id TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    crl_number INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS certificate (
    serial TEXT NOT NULL,
    authority TEXT NOT NULL REFERENCES authority (key_id),
    profile TEXT NOT NULL,
    subject TEXT NOT NULL,
    not_before INTEGER NOT NULL,
    not_after INTEGER NOT NULL,
    revoked INTEGER,
    reason INTEGER,
    der BLOB NOT NULL,
    PRIMARY KEY (authority, serial)
) STRICT;
";

pub struct Register {
    connection: Connection,
    path: PathBuf,
}

#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The subject in the form of RFC 4514.
    pub subject: String,
    pub issuer: String,
    pub profile: String,
    /// The first second of its validity, since 1970.
    pub not_before: i64,
    /// The last second of its validity, since 1970.
    pub not_after: i64,
    /// The second when the CA revoked it, since 1970.
    pub revoked: Option<i64>,
    /// The number of the reason in RFC 5280, 5.3.1.
    pub reason: Option<u32>,
}

impl Entry {
    /// Returns `valid`, `expired` or `revoked`.
    pub fn status(&self) -> &'static str {
        match self.revoked {
            Some(_) => "revoked",
            None if self.not_after < now() => "expired",
            None => "valid",
        }
    }
}

impl Register {
    /// Opens the list, and makes the file if it does not exist. Only its owner may read a new file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io(path)(error)),
            _ => {}
        }
        Self::connect(path)
    }

    pub fn existing(path: &Path) -> Result<Self, Error> {
        std::fs::metadata(path).map_err(Error::io(path))?;
        Self::connect(path)
    }

    fn connect(path: &Path) -> Result<Self, Error> {
        let connect = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        };
        let connection = connect().map_err(|source| Error::Register { path: path.to_owned(), source })?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Adds the CA if the list does not have it.
    pub fn add_authority(&self, key_id: &str, subject: &str) -> Result<(), Error> {
        const ADD: &str = "INSERT OR IGNORE INTO authority (key_id, subject) VALUES (?1, ?2)";
        self.done(self.connection.execute(ADD, [key_id, subject])).map(drop)
    }

    pub fn add(&self, authority: &str, entry: &Entry, der: &[u8]) -> Result<(), Error> {
        const ADD: &str =
            "INSERT INTO certificate (serial, authority, profile, subject, not_before, not_after, der)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let Entry { serial, profile, subject, not_before, not_after, .. } = entry;
        let values = params![serial, authority, profile, subject, not_before, not_after, der];
        self.done(self.connection.execute(ADD, values)).map(drop)
    }

    /// Returns all certificates of a CA, or of all CAs: the oldest first.
    pub fn entries(&self, authority: Option<&str>) -> Result<Vec<Entry>, Error> {
        const ALL: &str =
            "SELECT serial, c.subject, a.subject, profile, not_before, not_after, revoked, reason
            FROM certificate c JOIN authority a ON a.key_id = c.authority
            WHERE ?1 IS NULL OR authority = ?1 ORDER BY c.rowid";
        let read = || self.connection.prepare(ALL)?.query_map([authority], entry)?.collect();
        self.done(read())
    }

    pub fn find(&self, authority: &str, serial: &str) -> Result<Option<Entry>, Error> {
        Ok(self.entries(Some(authority))?.into_iter().find(|entry| entry.serial == serial))
    }

    /// Revokes a certificate. Fails if no CA of the list issued it, or if it is revoked already.
    pub fn revoke(&self, serial: &str, reason: u32) -> Result<Entry, Error> {
        const REVOKE: &str =
            "UPDATE certificate SET revoked = ?2, reason = ?3 WHERE serial = ?1 AND revoked IS NULL";
        let changed = self.done(self.connection.execute(REVOKE, params![serial, now(), reason]))?;
        let entry = self.entries(None)?.into_iter().find(|entry| entry.serial == serial);
        match entry {
            None => Err(Error::Caused(
                Cause::NotFound,
                format!("{} has no certificate {serial}", self.path.display()),
            )),
            Some(_) if changed == 0 => {
                Err(Error::Caused(Cause::Exists, format!("the certificate {serial} is revoked already")))
            }
            Some(entry) => Ok(entry),
        }
    }

    /// Counts a CRL of this CA, and returns its number. A later CRL has a larger number.
    pub fn next_crl_number(&self, authority: &str) -> Result<u64, Error> {
        const NEXT: &str =
            "UPDATE authority SET crl_number = crl_number + 1 WHERE key_id = ?1 RETURNING crl_number";
        let number = self.connection.query_row(NEXT, [authority], |row| row.get::<_, i64>(0)).optional();
        let number = self.done(number)?;
        number.map(i64::unsigned_abs).ok_or_else(|| {
            Error::Caused(Cause::NotFound, format!("{} does not have this CA", self.path.display()))
        })
    }

    fn done<T>(&self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|source| Error::Register { path: self.path.clone(), source })
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        serial: row.get(0)?,
        subject: row.get(1)?,
        issuer: row.get(2)?,
        profile: row.get(3)?,
        not_before: row.get(4)?,
        not_after: row.get(5)?,
        revoked: row.get(6)?,
        reason: row.get(7)?,
    })
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}
