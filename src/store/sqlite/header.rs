//! Reads the header of a token file that SQLite does not open: one open, one read, one close.
//! `C_Initialize` reads thousands of files in this way.
//!
//! SQLite decodes the first pages, as a database in memory. It leaves every file to which they are
//! not enough to a connection, which checks all of it.
//!
//! It takes no lock. So it refuses a file whose write-ahead log may have newer content, and a file
//! that changed a moment ago.

use std::io::{Error, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, MAIN_DB, OpenFlags};
use rustix::fs::OFlags;

use super::file_identity::{JOURNAL, ROLLBACK, Stamp};
use super::layout;
use super::rows::read_header;
use super::schema;
use super::{FORMAT, OLDEST};
use crate::file;
use crate::store::{Header, fork, is_serial, permissions};

/// The length of the pages of a new token file: the schema and the three tables.
const START: usize = 4 * 4096;
/// The first bytes of the file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The largest size of a page.
const LARGEST: usize = 1 << 16;

/// Reads headers, with one connection for all of them.
#[derive(Default)]
pub(super) struct Reader {
    memory: Option<Connection>,
}

impl Reader {
    /// Returns the header of the token file at `path`, without its summary, and the stamp of the
    /// file that it was read from.
    ///
    /// Returns `None` if only SQLite can tell: the file has a write-ahead log with content or a
    /// rollback journal, its header is not in the first pages, it is a symbolic link or has a
    /// second name, or it changed a moment ago. Also if [`layout::check`] refuses its directory.
    pub(super) fn read(&mut self, path: &Path) -> Option<(Header, Stamp)> {
        layout::check(path).ok()?;
        // The log is looked up before the file is read: a log that appears later has only newer
        // states.
        let beside = |extension| std::fs::symlink_metadata(path.with_extension(extension));
        if beside(JOURNAL).is_ok_and(|log| log.len() > 0) || beside(ROLLBACK).is_ok() {
            return None;
        }
        let (start, stamp) = read_start(path)?;
        Some((self.header(start)?, stamp))
    }

    /// Returns the header in the first pages of a token file.
    fn header(&mut self, mut start: Vec<u8>) -> Option<Header> {
        expect_our_tables(&start).ok()?;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(schema::connect(":memory:", OpenFlags::default()).ok()?),
        };
        // A database in memory has no write-ahead log: the write version and the read version are
        // 1. The number of pages is unknown, so that SQLite takes it from the length.
        start[18..20].fill(1);
        start[28..32].fill(0);
        // A statement could have the page numbers of the previous file.
        memory.flush_prepared_statement_cache();
        memory.deserialize_read_exact(MAIN_DB, &start[..], start.len(), true).ok()?;
        schema::verify(memory).ok()?;
        read_header(memory).ok()?.ok()?.filter(|header| is_serial(header.serial.as_bytes()))
    }
}

/// Reads the first pages of a token file. Returns them with its stamp, as of a file without a
/// write-ahead log. Returns `None` if the file fails [`file::open`] or [`permissions::check_file`],
/// or changed a moment ago. Also returns `None` if closing the file could release locks of SQLite,
/// because they belong to the process.
fn read_start(path: &Path) -> Option<(Vec<u8>, Stamp)> {
    if !fork::locks_belong_to_descriptions() {
        return None;
    }
    let now = SystemTime::now();
    let file = file::open(path, OFlags::RDONLY, 0).ok()?;
    let mut start = vec![0; START];
    file.read_exact_at(&mut start, 0).ok()?;
    let data = file.metadata().ok()?;
    permissions::check_file(&data).ok()?;
    let stamp = Stamp::alone(&data);
    // After a change during the read, the stamp was not settled at `now`.
    stamp.was_settled(now).then_some((start, stamp))
}

/// Fails unless the file at `path` has a known format and the tables of a token. Called before
/// SQLite opens the file, because SQLite would write to the database of another program: it would
/// turn on the write-ahead log, and apply the log of that program. [`schema::verify`] compares the
/// schema afterwards.
pub(super) fn expect_token(path: &Path) -> std::io::Result<()> {
    let mut start = Vec::new();
    file::open(path, OFlags::RDONLY, 0)?.take(LARGEST as u64).read_to_end(&mut start)?;
    expect_our_tables(&start)
}

/// Checks the first page of a file ("Database File Format" of SQLite's manual).
fn expect_our_tables(start: &[u8]) -> std::io::Result<()> {
    let no_token = || Error::other("this file does not have the tables of a token file");
    let page = first_page(start).ok_or_else(no_token)?;
    // SQLite reads the whole schema before we can compare it. If this page had children, they could
    // be the same page many times. So it must be a leaf with one row for each table.
    if page.get(100) != Some(&13) || page.get(103..105) != Some(&[0, 3]) {
        return Err(no_token());
    }
    let text = schema::plain(&String::from_utf8_lossy(page));
    if !schema::statements().all(|statement| text.contains(&statement)) {
        return Err(no_token());
    }
    let format = page[60..].first_chunk().map_or(0, |version| i64::from(i32::from_be_bytes(*version)));
    if (OLDEST..=FORMAT).contains(&format) {
        return Ok(());
    }
    Err(Error::other(format!("unknown format of the token file: {format}; {FORMAT} is known")))
}

fn first_page(start: &[u8]) -> Option<&[u8]> {
    let size = u16::from_be_bytes(*start.strip_prefix(MAGIC)?.first_chunk()?);
    start.get(..if size == 1 { LARGEST } else { usize::from(size) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::super::OpenFile;
    use super::super::file_identity::STEP;
    use super::*;
    use crate::store::{Change, PinState};

    const PAGE: usize = START / 4;

    fn any_header() -> Header {
        let pin = |byte: u8, failures| PinState { record: vec![byte; 150], failures };
        Header {
            serial: "0123456789abcdef".to_owned(),
            slot: 70_000,
            label: *b"a label                         ",
            so: pin(7, 0),
            user: pin(9, 300),
            change: Change(1 << 41),
            summary: vec![5; 1088],
        }
    }

    fn facts(header: &Header) -> impl PartialEq + std::fmt::Debug + use<> {
        let pins = [&header.so, &header.user].map(|pin| (pin.record.clone(), pin.failures));
        (header.serial.clone(), header.slot, header.label, pins, header.change)
    }

    /// Returns a directory with one token file, and the file.
    fn directory() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = OpenFile::create(directory.path(), &any_header()).expect("a token file");
        (directory, path)
    }

    fn header(start: &[u8]) -> Option<Header> {
        Reader::default().header(start[..START.min(start.len())].to_vec())
    }

    #[test]
    fn a_settled_file_has_the_header_that_sqlite_reads() {
        let is_long_ago = |moment: SystemTime| moment.elapsed().is_ok_and(|age| age > STEP / 2);
        let start = SystemTime::now();
        let (_directory, path) = directory();
        let mut reader = Reader::default();
        let mut read = |path: &Path| reader.read(path).map(|(header, _)| header);
        assert!(read(&path).is_none() || is_long_ago(start), "it was made a moment ago");
        std::thread::sleep(std::time::Duration::from_millis(80));
        let direct = read(&path).expect("a header");
        let open = OpenFile::open(&path).expect("a file");
        assert_eq!(facts(&direct), facts(&open.header().expect("a header")));
        let start = SystemTime::now();
        open.attempt(crate::store::Role::User, 1000).expect("a count");
        drop(open);
        assert!(read(&path).is_none() || is_long_ago(start), "it changed a moment ago");
        std::thread::sleep(std::time::Duration::from_millis(80));
        assert_eq!(read(&path).expect("a header").user.failures, 301);
        let link = path.with_file_name("link.jeton");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(read(&link).is_none(), "its log is beside another name");
        std::fs::hard_link(&path, path.with_file_name("other.jeton")).expect("a link");
        assert!(read(&path).is_none(), "its log may be beside another name");
    }

    #[test]
    fn no_altered_byte_of_the_schema_gives_another_header() {
        let (_directory, path) = directory();
        let start = std::fs::read(&path).expect("a file");
        assert_eq!(start.len(), START);
        let expected = facts(&any_header());
        let mut reader = Reader::default();
        let mut header = |start: Vec<u8>| reader.header(start).map(|header| facts(&header));
        assert_eq!(header(start.clone()), Some(expected));
        for at in 0..2 * PAGE {
            let mut altered = start.clone();
            altered[at] ^= [1, 0x10, 0x80, 0xff][at % 4];
            let found = header(altered);
            assert!(at >= PAGE || found.is_none_or(|found| found == facts(&any_header())), "byte {at}");
        }
        assert!((0..PAGE).all(|len| header(start[..len].to_vec()).is_none()));
    }

    #[test]
    fn planted_tables_and_other_formats_are_left_to_sqlite() {
        let plants = [
            "CREATE TRIGGER planted AFTER INSERT ON record BEGIN DELETE FROM record; END",
            "CREATE TABLE other(a)",
            "CREATE INDEX planted ON object(tag)",
            "DROP TABLE record",
            "PRAGMA user_version = 4",
            "PRAGMA user_version = 1",
            "UPDATE token SET so_pin = zeroblob(5000)",
            "UPDATE token SET so_pin = zeroblob(200000)",
            "DELETE FROM token",
        ];
        for plant in plants {
            let (_directory, path) = directory();
            let connection = Connection::open(&path).expect("a file");
            connection.execute_batch(plant).expect("a statement");
            drop(connection);
            let bytes = std::fs::read(&path).expect("a file");
            assert!(header(&bytes).is_none(), "{plant}");
            let long = plant.contains("200000");
            assert!(!long || OpenFile::open(&path).expect("our tables").header().is_err(), "{plant}");
        }
    }
}
