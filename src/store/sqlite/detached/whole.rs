//! Writes and reads all objects of a detached file, for a token that moves between a file and a
//! database.

use std::path::Path;

use super::Detached;
use crate::error::Result;
use crate::store::fingerprint::{Content, Fingerprint};
use crate::store::sqlite::commit::{self, apply};
use crate::store::sqlite::failure::log_failure;
use crate::store::sqlite::open::create_content;
use crate::store::{Header, Row, Write};

impl Detached {
    /// Begins a token with this header in the empty file at `path`. The caller adds its objects,
    /// and calls [`Self::complete`].
    pub(in crate::store) fn create(path: &Path, header: &Header) -> Result<Self> {
        let begin = || {
            let connection = create_content(path, header)?;
            connection.execute_batch("BEGIN")?;
            Ok(connection)
        };
        let connection = begin().map_err(|reason| log_failure(path, "create", &reason))?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// Adds an object.
    pub(in crate::store) fn insert(&self, row: &Row, record: &[u8]) -> Result<()> {
        let inserted = apply(&self.connection, &Write::Insert(row, record));
        inserted.map(drop).map_err(|reason| self.log("add an object", &reason))
    }

    /// Commits the objects.
    pub(in crate::store) fn complete(self) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(|reason| self.log("add the objects", &reason))
    }

    pub(in crate::store) fn header_with_summary(&self) -> Result<Header> {
        Ok(Header { summary: self.summary()?, ..self.header()? })
    }

    /// Returns the next objects after this number, in the order of their numbers.
    pub(in crate::store) fn objects_after(&self, id: i64) -> Result<Vec<(Row, Vec<u8>)>> {
        commit::objects_after(&self.connection, id).map_err(|reason| self.log("read the objects", &reason))
    }

    pub(in crate::store) fn content(&self) -> Result<Content> {
        let mut fingerprint = Fingerprint::new(&self.header_with_summary()?);
        let mut last = i64::MIN;
        loop {
            let batch = self.objects_after(last)?;
            let Some((row, _)) = batch.last() else { return Ok(fingerprint.finish()) };
            last = row.id;
            batch.iter().for_each(|(row, record)| fingerprint.object(row, record));
        }
    }
}
