//! Transactions, and the values of altered files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};
use tempfile::TempDir;

use super::OpenFile;
use super::commit::{Fault, Outcome, objects_after};
use crate::error::Error;
use crate::store::seal::record::LONGEST_RECORD;
use crate::store::{Change, Header, PinState};
use crate::sync::lock;

const PAGE: usize = 4096;
/// The length of a value, and that of the file, most of which has no blocks.
const LONG: u64 = 200 << 20;
const SPARSE: u64 = 256 << 20;

/// Returns a directory with a token file that has one object, and the file.
fn token() -> (TempDir, PathBuf) {
    let pin = || PinState { record: vec![1; 150], failures: 0 };
    let header = Header {
        serial: "0123456789abcdef".to_owned(),
        slot: 1,
        label: [b' '; 32],
        so: pin(),
        user: pin(),
        change: Change(1),
        summary: vec![5; 1088],
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = OpenFile::create(directory.path(), &header).expect("a token file");
    let rows = "INSERT INTO object VALUES(1, 0, zeroblob(16), zeroblob(64));
                INSERT INTO record VALUES(1, zeroblob(100))";
    Connection::open(&path).and_then(|file| file.execute_batch(rows)).expect("our tables");
    (directory, path)
}

/// A value in the record format of SQLite.
enum Column {
    /// The number of the row.
    Row,
    Number(u8),
    Text(&'static [u8]),
    Blob(u64),
}

impl Column {
    fn serial_type(&self) -> u64 {
        match self {
            Self::Row => 0,
            Self::Number(_) => 1,
            Self::Text(text) => 13 + 2 * text.len() as u64,
            Self::Blob(len) => 12 + 2 * len,
        }
    }

    fn content(&self) -> Vec<u8> {
        match self {
            Self::Row => Vec::new(),
            Self::Number(number) => vec![*number],
            Self::Text(text) => text.to_vec(),
            // The rest is in other pages.
            Self::Blob(len) => vec![0; PAGE.min(*len as usize)],
        }
    }

    fn len(&self) -> u64 {
        if let Self::Blob(len) = self { *len } else { self.content().len() as u64 }
    }
}

fn varint(number: u64) -> Vec<u8> {
    let groups = (number.max(1).ilog2() / 7) as u8;
    let byte = |group: u8| (number >> (7 * group)) as u8 & 0x7f | if group == 0 { 0 } else { 0x80 };
    (0..=groups).rev().map(byte).collect()
}

/// Replaces the root page of a table by a page with one row of these columns. The value that
/// does not fit is in one page, whose next page is itself.
fn plant(path: &Path, table: &str, columns: &[Column]) {
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root = Connection::open(path).and_then(|file| file.query_row(root, [table], |row| row.get(0)));
    let root: i64 = root.expect("a table");
    let types: Vec<u8> = columns.iter().flat_map(|column| varint(column.serial_type())).collect();
    let head = [varint(types.len() as u64 + 1), types].concat();
    let payload = head.len() as u64 + columns.iter().map(Column::len).sum::<u64>();
    let content = columns.iter().flat_map(Column::content);
    let start: Vec<u8> = head.into_iter().chain(content).collect();
    // "Database File Format", 1.6: the part of a payload that is in the page of its row.
    let (most, least) = (PAGE as u64 - 35, (PAGE as u64 - 12) * 32 / 255 - 23);
    let part = least + (payload - least) % (PAGE as u64 - 4);
    let part = if part <= most { part } else { least } as usize;
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
    let next = (file.metadata().expect("a file").len() / PAGE as u64 + 1) as u32;
    let cell = [&varint(payload)[..], &varint(1), &start[..part], &next.to_be_bytes()].concat();
    let at = PAGE - cell.len();
    let mut page = vec![13, 0, 0, 0, 1];
    page.extend((at as u16).to_be_bytes());
    page.push(0);
    page.extend((at as u16).to_be_bytes());
    page.resize(at, 0);
    page.extend(cell);
    let write = |bytes: &[u8], at: u64| file.write_all_at(bytes, at).expect("a file");
    write(&page, (root.cast_unsigned() - 1) * PAGE as u64);
    write(&next.to_be_bytes(), u64::from(next - 1) * PAGE as u64);
    write(&((SPARSE / PAGE as u64) as u32).to_be_bytes(), 28);
    file.set_len(SPARSE).expect("a file");
    let blocks = File::open(path).and_then(|file| file.metadata()).expect("a file").blocks();
    assert!(blocks * 512 < 1 << 20, "the file takes {blocks} blocks");
}

#[test]
fn a_row_with_a_longer_value_than_jeton_writes_is_damaged() {
    for (tag, names) in [(16, LONG), (LONG, 64)] {
        let (_directory, path) = token();
        plant(&path, "object", &[Column::Row, Column::Number(0), Column::Blob(tag), Column::Blob(names)]);
        let file = OpenFile::open(&path).expect("our tables");
        assert_eq!(file.load(&mut |_| ()).err(), Some(Error::TokenNotRecognized), "{tag} {names}");
    }
    let (_directory, path) = token();
    let longer = "UPDATE object SET names = zeroblob(72)";
    Connection::open(&path).and_then(|file| file.execute_batch(longer)).expect("our tables");
    let file = OpenFile::open(&path).expect("our tables");
    assert_eq!(file.load(&mut |_| ()).err(), Some(Error::TokenNotRecognized));
}

#[test]
fn a_longer_record_than_jeton_writes_is_empty() {
    let (_directory, path) = token();
    plant(&path, "record", &[Column::Row, Column::Blob(LONG)]);
    let file = OpenFile::open(&path).expect("our tables");
    file.load(&mut |_| ()).expect("sound rows");
    assert_eq!(file.record(1), Ok(Some(Vec::new())));
    let batch = objects_after(&lock(&file.reader), 0).expect("a row");
    assert_eq!(batch.iter().map(|(row, record)| (row.id, record.len())).collect::<Vec<_>>(), [(1, 0)]);
}

#[test]
fn a_longer_value_of_a_token_than_jeton_writes_is_not_read() {
    use Column::{Blob, Number, Row, Text};
    let serial = || Text(b"0123456789abcdef");
    let columns = |label, pin, summary| {
        [
            Row,
            serial(),
            Number(1),
            Blob(label),
            Blob(pin),
            Number(0),
            Blob(150),
            Number(0),
            Number(1),
            Blob(summary),
        ]
    };
    let open = |columns: &[Column]| {
        let (directory, path) = token();
        plant(&path, "token", columns);
        (directory, OpenFile::open(&path).expect("our tables"))
    };
    for (label, pin) in [(LONG, 150), (32, LONG)] {
        let (_directory, file) = open(&columns(label, pin, 1088));
        assert_eq!(file.header().err(), Some(Error::TokenNotRecognized), "{label} {pin}");
    }
    let (_directory, file) = open(&columns(32, 150, LONG));
    assert!(file.load(&mut |_| ()).expect("sound rows").summary.is_empty());
}

#[test]
fn the_longest_record_is_written_and_read() {
    let (_directory, path) = token();
    let file = OpenFile::open(&path).expect("a file");
    let record = vec![7; LONGEST_RECORD];
    let write = |transaction: &Transaction<'_>| -> Outcome<usize> {
        Ok(transaction.execute("UPDATE record SET body = ?1", [&record])?)
    };
    assert_eq!(file.write("test", write), Ok(1));
    assert!(file.record(1) == Ok(Some(record.clone())));
}

#[test]
fn a_transaction_that_keeps_old_bytes_changes_no_later_transaction() {
    let (_directory, path) = token();
    let file = OpenFile::open(&path).expect("a file");
    let mode = |transaction: &Transaction<'_>| -> Outcome<i64> {
        Ok(transaction.pragma_query_value(None, "secure_delete", |row| row.get(0))?)
    };
    let mut seen = Vec::new();
    let work = |transaction: &Transaction<'_>| -> Outcome<()> {
        seen.push(mode(transaction)?);
        assert!(seen.len() < 3, "the last attempt ends without its restoring steps");
        Err(Fault::Refused(Error::DeviceMemory))
    };
    let ended = catch_unwind(AssertUnwindSafe(|| file.write_with_reserve("test", work)));
    assert!(ended.is_err());
    // SQLite's numbers: 1 is ON, 2 is FAST.
    assert_eq!(seen, [1, 1, 2]);
    assert_eq!(file.write("test", mode), Ok(1));
}

#[test]
fn a_batch_of_long_records_ends_early() {
    let (_directory, path) = token();
    let file = OpenFile::open(&path).expect("a file");
    let insert = "INSERT INTO object VALUES(?1, 0, zeroblob(16), x'')";
    let record = "INSERT INTO record VALUES(?1, zeroblob(?2))";
    let all = |transaction: &Transaction<'_>| -> Outcome<_> {
        for id in 10..16 {
            transaction.execute(insert, [id])?;
            transaction.execute(record, [id, 1 << 19])?;
        }
        Ok((objects_after(transaction, 9)?.len(), objects_after(transaction, 12)?.len()))
    };
    assert_eq!(file.write("test", all), Ok((3, 3)));
}
