//! A store's file that no other process uses: a copy for a backup, or a file that becomes a token.
//! It has no write-ahead log, and no name that a search for tokens finds.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};
use tracing::error;

use super::FORMAT;
use super::commit::{self, Fault};
use super::failure::{log_failure, log_not_a_token};
use super::header::expect_token;
use super::inspect::inspect;
use super::rows::{read_header, snapshot};
use super::schema;
use crate::error::{Error, Result};
use crate::store::seal::TokenKey;
use crate::store::{Change, Header, Inspection, Purpose, Work};

#[cfg(feature = "postgresql")]
mod whole;

/// A token file that is open.
pub(crate) struct Detached {
    path: PathBuf,
    connection: Connection,
}

impl Detached {
    /// Opens the file. Fails if its tables are not those of a token.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        expect_token(path).map_err(|reason| log_not_a_token(path, &reason))?;
        let open = || {
            let mut connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            schema::verify(&connection)?;
            schema::lift_limits(&mut connection)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "secure_delete", "ON")?;
            Ok(connection)
        };
        let connection = open().map_err(|reason| log_failure(path, "open", &reason))?;
        Ok(Self { path: path.to_owned(), connection })
    }

    pub(crate) fn header(&self) -> Result<Header> {
        match read_header(&self.connection).map_err(|reason| self.log("header", &reason))? {
            Ok(Some(header)) => Ok(header),
            Ok(None) => Err(Error::TokenNotRecognized),
            Err(format) => {
                error!(file = %self.path.display(), format, known = FORMAT, "unknown format of the token file");
                Err(Error::TokenNotRecognized)
            }
        }
    }

    /// Returns the sealed summary of the rows.
    pub(crate) fn summary(&self) -> Result<Vec<u8>> {
        let read = snapshot(&self.connection).optional().map_err(|reason| self.log("summary", &reason))?;
        read.map(|snapshot| snapshot.summary).ok_or(Error::TokenNotRecognized)
    }

    /// Looks for damage. With the token key, verifies every record.
    pub(crate) fn inspect(&self, key: Option<&TokenKey>) -> Result<Inspection> {
        inspect(&self.connection, key).map_err(|reason| self.log("inspect", &reason))
    }

    pub(crate) fn set_change(&self, change: Change, summary: &[u8]) -> Result<()> {
        let sql = "UPDATE token SET change = ?1, summary = ?2 WHERE one = 1";
        let done = self.connection.execute(sql, params![change.0, summary]);
        done.map(drop).map_err(|reason| self.log("set the state", &reason))
    }

    /// Does the work of a transaction that rewrites the token, and sets the serial number.
    pub(crate) fn rewrite(&mut self, work: &mut Work<'_>, serial: &str) -> Result<()> {
        let mut attempt = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            commit::run(&transaction, Purpose::Rewrite, work)?;
            transaction.execute("UPDATE token SET serial = ?1 WHERE one = 1", [serial])?;
            Ok(transaction.commit()?)
        };
        let outcome: commit::Outcome<()> = attempt();
        outcome.map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Sqlite(reason) => self.log("rewrite", &reason),
        })
    }

    /// Turns on the write-ahead log, which every token file has, and closes the file.
    pub(crate) fn close(self) -> Result<()> {
        let path = self.path;
        let fail = |reason: &rusqlite::Error| log_failure(&path, "close", reason);
        self.connection.pragma_update(None, "journal_mode", "WAL").map_err(|reason| fail(&reason))?;
        self.connection.close().map_err(|(_, reason)| fail(&reason))
    }

    fn log(&self, what: &str, reason: &rusqlite::Error) -> Error {
        log_failure(&self.path, what, reason)
    }
}
