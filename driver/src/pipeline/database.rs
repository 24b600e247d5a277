//! The pipeline's database: SQLite in WAL mode, one batch for each module, algorithm and size.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::{Error, Result};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS batches (
        id INTEGER PRIMARY KEY, module TEXT NOT NULL, algorithm TEXT NOT NULL, size INTEGER NOT NULL,
        ca_certificate BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS certificates (
        batch INTEGER NOT NULL REFERENCES batches, serial INTEGER NOT NULL, der BLOB NOT NULL,
        PRIMARY KEY (batch, serial));
    CREATE TABLE IF NOT EXISTS crls (
        batch INTEGER NOT NULL REFERENCES batches, number INTEGER NOT NULL, der BLOB NOT NULL,
        PRIMARY KEY (batch, number));
    CREATE TABLE IF NOT EXISTS ocsp_responses (
        batch INTEGER NOT NULL REFERENCES batches, serial INTEGER NOT NULL, der BLOB NOT NULL,
        PRIMARY KEY (batch, serial));
";

pub struct Database {
    connection: Connection,
}

/// The length of the longest document of a kind, over the batches of an algorithm and size.
#[derive(Clone, Debug)]
pub struct DocumentSize {
    /// The CA's algorithm, or a profile such as `rsa4096/ecdsa-p256`.
    pub algorithm: String,
    pub size: u64,
    /// The type of document, such as `CRL`.
    pub kind: String,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    Certificates,
    Crls,
    OcspResponses,
}

impl Table {
    const fn insert(self) -> &'static str {
        match self {
            Self::Certificates => "INSERT INTO certificates (batch, serial, der) VALUES (?1, ?2, ?3)",
            Self::Crls => "INSERT INTO crls (batch, number, der) VALUES (?1, ?2, ?3)",
            Self::OcspResponses => "INSERT INTO ocsp_responses (batch, serial, der) VALUES (?1, ?2, ?3)",
        }
    }

    const fn select(self) -> &'static str {
        match self {
            Self::Certificates => "SELECT serial, der FROM certificates WHERE batch = ?1 ORDER BY serial",
            Self::Crls => "SELECT number, der FROM crls WHERE batch = ?1 ORDER BY number",
            Self::OcspResponses => "SELECT serial, der FROM ocsp_responses WHERE batch = ?1 ORDER BY serial",
        }
    }
}

/// A stored document: the serial number of its row, and its bytes.
pub(super) type Row = (u64, Vec<u8>);

impl Database {
    pub fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection })
    }

    /// Returns the lengths of the longest documents of each algorithm and batch size.
    pub fn document_sizes(&self) -> Result<Vec<DocumentSize>> {
        const KINDS: [(&str, &str); 4] = [
            ("CA certificate", "SELECT id AS batch, ca_certificate AS der FROM batches"),
            ("certificate", "SELECT batch, der FROM certificates"),
            ("CRL", "SELECT batch, der FROM crls"),
            ("OCSP response", "SELECT batch, der FROM ocsp_responses"),
        ];
        let mut sizes = Vec::new();
        for (kind, documents) in KINDS {
            let mut statement = self.connection.prepare(&format!(
                "SELECT algorithm, size, max(length(der)) FROM ({documents}) JOIN batches ON batches.id = batch
                 GROUP BY algorithm, size ORDER BY min(batches.id)"
            ))?;
            let rows = statement.query_map([], |row| {
                let kind = kind.to_owned();
                Ok(DocumentSize { algorithm: row.get(0)?, size: row.get(1)?, kind, bytes: row.get(2)? })
            })?;
            for row in rows {
                sizes.push(row?);
            }
        }
        Ok(sizes)
    }

    /// Adds a batch. Replaces a batch of the same module, algorithm and size.
    pub(super) fn start_batch(
        &mut self,
        module: &str,
        algorithm: &str,
        size: u64,
        ca_certificate: &[u8],
    ) -> Result<i64> {
        let transaction = self.connection.transaction()?;
        forget(&transaction, module, algorithm, size)?;
        transaction.execute(
            "INSERT INTO batches (module, algorithm, size, ca_certificate) VALUES (?1, ?2, ?3, ?4)",
            params![module, algorithm, size, ca_certificate],
        )?;
        let id = transaction.last_insert_rowid();
        transaction.commit()?;
        Ok(id)
    }

    pub(super) fn forget_batch(&mut self, module: &str, algorithm: &str, size: u64) -> Result<()> {
        let transaction = self.connection.transaction()?;
        forget(&transaction, module, algorithm, size)?;
        Ok(transaction.commit()?)
    }

    /// Stores documents in one transaction with one prepared statement. Serial numbers start at 1.
    pub(super) fn insert(&mut self, table: Table, batch: i64, documents: &[Vec<u8>]) -> Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut statement = transaction.prepare(table.insert())?;
            for (serial, der) in (1u64..).zip(documents) {
                statement.execute(params![batch, serial, der])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Reads the documents of a batch. Another run with the same database may have removed some:
    /// then fewer than `expected` are there.
    pub(super) fn read(&self, table: Table, batch: i64, expected: u64) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare(table.select())?;
        let rows = statement.query_map([batch], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        match rows.len() as u64 {
            found if found == expected => Ok(rows),
            found => Err(Error::Failed(format!("the database has {found} of {expected} documents"))),
        }
    }
}

fn forget(connection: &Connection, module: &str, algorithm: &str, size: u64) -> rusqlite::Result<()> {
    let same = "SELECT id FROM batches WHERE module = ?1 AND algorithm = ?2 AND size = ?3";
    for table in ["certificates", "crls", "ocsp_responses"] {
        let delete = format!("DELETE FROM {table} WHERE batch IN ({same})");
        connection.execute(&delete, params![module, algorithm, size])?;
    }
    let delete = "DELETE FROM batches WHERE module = ?1 AND algorithm = ?2 AND size = ?3";
    connection.execute(delete, params![module, algorithm, size])?;
    Ok(())
}
