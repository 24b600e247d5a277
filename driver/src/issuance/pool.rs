//! A fixed number of connections to one database, which the clients share.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::load::{Clock, Phase, Storage};
use crate::Error;
use crate::pipeline::{Database, Stored};

pub(super) struct Pool {
    idle: Mutex<Vec<Database>>,
    returned: Condvar,
    batch: i64,
    /// The folder of the database file. Dropping this value removes the folder.
    _directory: Option<tempfile::TempDir>,
}

impl Pool {
    /// Makes a new database with a batch for the certificates of a CA. `temporary` is the folder
    /// for [`Storage::File`].
    pub(super) fn create(
        storage: &Storage,
        temporary: &Path,
        connections: usize,
        batch: (&str, &str, u64, &[u8]),
    ) -> Result<Self, Error> {
        let folder = match storage {
            Storage::Memory => None,
            Storage::File => Some(temporary),
            Storage::Directory(path) => Some(path.as_path()),
        };
        let directory = folder.map(|folder| {
            tempfile::Builder::new().prefix("jeton-issue-").tempdir_in(folder).map_err(Error::io(folder))
        });
        let directory = directory.transpose()?;
        let open = || match &directory {
            Some(directory) => Database::open(&directory.path().join("issue.db")),
            None => Database::in_memory(),
        };
        let mut first = open()?;
        let (module, algorithm, size, ca) = batch;
        let batch = first.start_batch(module, algorithm, size, ca)?;
        let mut idle = vec![first];
        while directory.is_some() && idle.len() < connections {
            idle.push(open()?);
        }
        Ok(Self { idle: Mutex::new(idle), returned: Condvar::new(), batch, _directory: directory })
    }

    pub(super) fn store(&self, serial: u64, der: &[u8], clock: &mut Clock) -> Result<Stored, Error> {
        let mut connection = self.take();
        let stored = connection.store_certificate(self.batch, serial, der, || clock.lap(Phase::DatabaseWait));
        clock.lap(Phase::Database);
        self.idle().push(connection);
        self.returned.notify_one();
        stored
    }

    fn take(&self) -> Database {
        let mut idle = self.idle();
        loop {
            if let Some(connection) = idle.pop() {
                return connection;
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Database>> {
        // A panic cannot break an invariant of this vector.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
