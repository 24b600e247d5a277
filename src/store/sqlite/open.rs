//! Opens and creates token files. Opens a file read-only if the disk is full or the process may not
//! write the file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rusqlite::{Connection, MAIN_DB, OpenFlags};
use rustix::fs::OFlags;
use tracing::{error, warn};

use super::commit::replace_content;
use super::disk_reserve;
use super::failure::{is_shortage, log_failure, log_io_failure, log_not_a_token};
use super::file_identity::{JOURNAL, ROLLBACK};
use super::header::expect_token;
use super::layout;
use super::read_only::{Still, is_out_of_room};
use super::replaced_files::Names;
use super::schema;
use super::{BUSY, FORMAT, Kept, OpenFile, UNKNOWN};
use crate::error::{Error, Result};
use crate::file;
use crate::store::permissions;
use crate::store::{Header, descriptors};
use crate::sync::lock;

/// The extension of a token file while it is created.
const FRESH: &str = "new";

/// The open connections of a token file.
struct Connections {
    writer: Connection,
    reader: Connection,
    still: Option<Still>,
}

impl Connections {
    fn is_only_read(&self) -> bool {
        self.writer.is_readonly(MAIN_DB).unwrap_or(true)
    }
}

impl OpenFile {
    /// Opens a token file. Opens it read-only if the disk is full or the process may not write it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        expect_token_file(path).map_err(|reason| log_not_a_token(path, &reason))?;
        // A process that was killed may have left old bytes in the write-ahead log.
        let log = std::fs::symlink_metadata(path.with_extension(JOURNAL)).is_ok_and(|log| log.len() != 0);
        let opened = match connect(path) {
            Err(reason) if is_out_of_room(&reason) => {
                // If this fails, the file can still be opened read-only.
                let _ = disk_reserve::give_back(path);
                connect(path)
            }
            opened => opened,
        }
        .or_else(|reason| Self::only_read(path, reason))
        .map_err(|reason| log_failure(path, "open", &reason))?;
        let names = Names::of(path).map_err(|reason| log_io_failure(path, "open", &reason))?;
        let only_read = AtomicBool::new(opened.is_only_read());
        let Connections { writer, reader, still } = opened;
        let store = Self {
            path: path.to_owned(),
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            still: Mutex::new(still),
            only_read,
            file: names.id(),
            names: Mutex::new(names),
            schema: AtomicI64::new(UNKNOWN),
            data_version: AtomicI64::new(UNKNOWN),
            others_wrote: AtomicBool::new(false),
            asked: Mutex::default(),
            loaded: Mutex::default(),
            scrub_due: Mutex::new(log.then(Instant::now)),
        };
        store.take_reserve();
        Ok(store)
    }

    /// Opens the file read-only. `reason` is the error that prevented opening it for writes. Fails
    /// with this error if the file cannot be opened read-only either.
    fn only_read(path: &Path, reason: rusqlite::Error) -> rusqlite::Result<Connections> {
        // Without free file descriptors, SQLite fails as it does in a directory without write
        // permission.
        if is_shortage(&reason) {
            descriptors::set_shortage(true);
            return Err(reason);
        }
        let Some((writer, still)) = Still::open(path, &reason) else { return Err(reason) };
        let Some((reader, _)) = Still::open(path, &reason) else { return Err(reason) };
        warn!(file = %path.display(), "the token is read-only: {reason}");
        Ok(Connections { writer, reader, still: Some(still) })
    }

    /// Takes over the state that an earlier opening of the file kept.
    pub(super) fn restore(&self, kept: Kept) {
        self.others_wrote.store(kept.others_wrote, Ordering::Release);
        *lock(&self.loaded) = kept.loaded;
        let mut due = lock(&self.scrub_due);
        *due = due.or(kept.scrub_due);
    }

    /// Returns the state that the next opening of the file takes over.
    pub(super) fn kept(&self) -> Kept {
        Kept {
            others_wrote: self.others_wrote.load(Ordering::Acquire),
            loaded: *lock(&self.loaded),
            scrub_due: *lock(&self.scrub_due),
        }
    }

    /// Reserves disk space for the time when the disk is full. A token without a reserve works too.
    pub(super) fn take_reserve(&self) {
        if !self.is_write_protected()
            && let Err(reason) = disk_reserve::take(&self.path)
        {
            warn!(file = %self.path.display(), "cannot reserve disk space for the time when the disk is full: {reason}");
        }
    }

    /// Creates a token file with this header, in a directory of its own. Only its owner may use
    /// them. In a shared directory, the directory's group may use them too. The file has another
    /// name until it is complete. So no process sees a partial file, and a crash leaves no token.
    /// Returns the path.
    pub(super) fn create(dir: &Path, header: &Header) -> Result<PathBuf> {
        let path = layout::path_of(dir, &header.serial);
        let fresh = path.with_extension(FRESH);
        let fail = |reason: &std::io::Error| log_io_failure(&path, "create", reason);
        layout::make_directories(&path).map_err(|reason| fail(&reason))?;
        // SQLite would create a file that every user can read. It gives its journal files the mode
        // of the token file.
        let named = permissions::mode_in(dir)
            .and_then(|mode| permissions::open_or_create(&fresh, OFlags::WRONLY | OFlags::EXCL, mode))
            .map_err(|reason| fail(&reason))
            .and_then(|_| begin(&fresh, header).map_err(|reason| log_failure(&path, "create", &reason)))
            .and_then(|()| std::fs::rename(&fresh, &path).map_err(|reason| fail(&reason)));
        if let Err(error) = named {
            // The partial file is useless, and harmless if it cannot be removed. The same holds for
            // SQLite's files beside it.
            file::remove_beside(&fresh, &["", "-journal", "-wal", "-shm"]);
            layout::remove_empty_directory(&path);
            return Err(error);
        }
        layout::sync_directories(&path).map_err(|reason| fail(&reason))?;
        Ok(path)
    }

    /// Opens the file again if it was read-only. Fails with the reason if it is still read-only.
    pub(super) fn expect_writable(&self) -> Result<()> {
        if !self.is_write_protected() {
            return Ok(());
        }
        self.reopen()?;
        if !self.is_write_protected() {
            return Ok(());
        }
        Err(lock(&self.still).as_ref().map_or(Error::TokenWriteProtected, |still| still.reason))
    }

    /// Opens the file again, writable if possible.
    pub(super) fn reopen(&self) -> Result<()> {
        let (mut writer, mut reader) = (lock(&self.writer), lock(&self.reader));
        // The old connections are closed first: read-only descriptors cannot take the locks of a
        // writer (`src/store/fcntl_locks.rs`).
        let nothing =
            || Connection::open_in_memory().map_err(|reason| log_failure(&self.path, "reopen", &reason));
        (*writer, *reader) = (nothing()?, nothing()?);
        let opened = connect(&self.path).or_else(|reason| Self::only_read(&self.path, reason));
        match opened {
            Ok(opened) => {
                self.only_read.store(opened.is_only_read(), Ordering::Release);
                (*writer, *reader) = (opened.writer, opened.reader);
                *lock(&self.still) = opened.still;
                // SQLite has created new files beside the token.
                let names = Names::of(&self.path);
                *lock(&self.names) = names.map_err(|reason| log_io_failure(&self.path, "reopen", &reason))?;
                self.schema.store(UNKNOWN, Ordering::Release);
                self.data_version.store(UNKNOWN, Ordering::Release);
                self.others_wrote.store(true, Ordering::Release);
                Ok(())
            }
            Err(reason) => {
                let error = log_failure(&self.path, "reopen", &reason);
                // The next read tries to open it again.
                *lock(&self.still) = Some(Still { stamp: None, reason: error });
                Err(error)
            }
        }
    }

    /// Returns the connection for reads. Opens a read-only file again if it was changed.
    pub(super) fn current_reader(&self) -> Result<MutexGuard<'_, Connection>> {
        let is_stale = lock(&self.still).as_ref().is_some_and(|still| !still.is_current(&self.path));
        if is_stale {
            self.reopen()?;
        }
        Ok(lock(&self.reader))
    }

    /// Fails if a read-only file was changed while it was read.
    pub(super) fn expect_still(&self, what: &str) -> Result<()> {
        match &*lock(&self.still) {
            Some(still) if !still.is_current(&self.path) => {
                error!(file = %self.path.display(), "store, {what}: the file changed while it was read");
                Err(Error::DeviceError)
            }
            _ => Ok(()),
        }
    }
}

/// Fails unless a file can be opened as a token: what its name leads to, and its first page.
pub(super) fn expect_token_file(path: &Path) -> std::io::Result<()> {
    permissions::check_file(&std::fs::symlink_metadata(path)?)?;
    layout::check(path)?;
    // SQLite would use this journal. It would roll the token back, and remove the file that the
    // journal names.
    let journal = path.with_extension(ROLLBACK);
    if std::fs::symlink_metadata(&journal).is_ok() {
        let name = journal.file_name().unwrap_or_default();
        return Err(std::io::Error::other(format!("{name:?} does not belong beside a token file")));
    }
    expect_token(path)
}

fn connect(path: &Path) -> rusqlite::Result<Connections> {
    let mut writer = connection(path)?;
    let mut reader = connection(path)?;
    // The first read creates the `-shm` file.
    schema::verify(&reader)?;
    schema::lift_limits(&mut writer)?;
    schema::lift_limits(&mut reader)?;
    Ok(Connections { writer, reader, still: None })
}

fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Writes the content of a new token file. Enables the write-ahead log at the end, because the log
/// would have the temporary name of the file. If the first processes that open the file enabled the
/// log, they would block each other.
fn begin(path: &Path, header: &Header) -> rusqlite::Result<()> {
    let connection = create_content(path, header)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, reason)| reason)
}

/// Writes a token without objects into the empty file at `path`. The file has no write-ahead log.
pub(super) fn create_content(path: &Path, header: &Header) -> rusqlite::Result<Connection> {
    let mut connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::lift_limits(&mut connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema::SCHEMA)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    replace_content(&transaction, header)?;
    transaction.commit()?;
    Ok(connection)
}
