//! Reads the header of a token file without SQLite: one open, one read, one close. `C_Initialize`
//! reads thousands of files in this way.
//!
//! It reads the first two pages: the schema, and the only row of the table `token` ("Database File
//! Format" of SQLite's manual). It accepts only the exact form that SQLite gives our own files.
//! It leaves every other form to SQLite, which opens the file and checks all of it.
//!
//! It takes no lock. So the caller makes sure that no write-ahead log has newer content, and
//! [`Reader::read`] refuses a file that changed a moment ago.

use std::io::{Error, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::schema;
use super::stamp::Stamp;
use super::{FORMAT, OLDEST};
use crate::file;
use crate::store::{Change, Header, PinState, fork, is_serial, permissions};

/// SQLite's default page size, which token files have.
const PAGE: usize = 4096;
/// The first bytes of the file.
const MAGIC: &[u8] = b"SQLite format 3\0";
const FILE_HEADER: usize = 100;
/// The length of the header of a page without children.
const PAGE_HEADER: usize = 8;
/// The type of a page of table rows without children.
const LEAF: u8 = 13;
/// The length of the longest row that SQLite stores in one page.
const LOCAL: usize = PAGE - 35;
/// The largest number of rows in a page: the tables of the schema. A malformed page of 64 KiB could
/// have a hundred million fields.
const MOST: usize = 3;

/// Reads headers. It remembers the schema that it checked last, because all files have the same.
#[derive(Default)]
pub(super) struct Reader {
    pages: Vec<u8>,
    /// A first page that was checked.
    checked: Vec<u8>,
}

/// A header without its summary, and the stamp of the file that it was read from.
pub(super) type Found = (Header, Stamp);

impl Reader {
    /// Returns the header of the token file at `path`, which must not have a write-ahead log with
    /// content.
    ///
    /// Returns `None` if only SQLite can tell: the file has an unusual form, is a symbolic link or
    /// has a second name, or changed a moment ago.
    pub(super) fn read(&mut self, path: &Path) -> Option<Found> {
        self.pages.resize(2 * PAGE, 0);
        let stamp = read_start(path, &mut self.pages)?;
        let (first, second) = self.pages.split_at(PAGE);
        if !has_same_schema(first, &self.checked) {
            check_first(first)?;
            self.checked = first.to_vec();
        }
        Some((row_of_token(second)?, stamp))
    }
}

/// Reads the first bytes of a token file. Returns its stamp, as of a file without a write-ahead
/// log. Returns `None` if the file fails [`file::open`] or [`permissions::check_file`], or changed
/// a moment ago. Also returns `None` if closing the file could release locks of SQLite, because
/// they belong to the process.
fn read_start(path: &Path, bytes: &mut [u8]) -> Option<Stamp> {
    if !fork::locks_belong_to_descriptions() {
        return None;
    }
    let start = SystemTime::now();
    let file = file::open(path, OFlags::RDONLY, 0).ok()?;
    file.read_exact_at(bytes, 0).ok()?;
    let data = file.metadata().ok()?;
    permissions::check_file(&data).ok()?;
    let stamp = Stamp::alone(&data);
    // After a change during the read, the stamp was not settled at `start`.
    stamp.was_settled(start).then_some(stamp)
}

/// Returns whether two first pages differ only in the counts of changes, pages and free pages, the
/// first free page, and the version of SQLite that wrote last.
fn has_same_schema(one: &[u8], other: &[u8]) -> bool {
    const COUNTS: [Range<usize>; 2] = [24..40, 92..FILE_HEADER];
    let same = |range: Range<usize>| one.get(range.clone()) == other.get(range);
    one.len() == other.len()
        && same(0..COUNTS[0].start)
        && same(COUNTS[0].end..COUNTS[1].start)
        && same(COUNTS[1].end..PAGE)
}

/// Checks the file's header and its schema.
fn check_first(first: &[u8]) -> Option<()> {
    let expected: [(usize, &[u8]); 5] = [
        (0, MAGIC),
        (16, &(PAGE as u16).to_be_bytes()),
        // The write version and the read version are those of a write-ahead log; no reserved bytes.
        (18, &[2, 2, 0]),
        // No automatic vacuum.
        (52, &[0; 4]),
        // UTF-8.
        (56, &1_u32.to_be_bytes()),
    ];
    if !expected.iter().all(|(at, bytes)| first.get(*at..*at + bytes.len()) == Some(*bytes)) {
        return None;
    }
    if !is_known(format(first)?) {
        return None;
    }
    // `token` is the first table of the schema, so its only page is page 2.
    our_schema(first)?.iter().any(|table| table.name == "token" && table.root == 2).then_some(())
}

/// Fails unless the file at `path` has a known format, and exactly the tables of a token. Called
/// before SQLite opens the file, because SQLite would write to it: it would turn on the write-ahead
/// log, and apply the log of another program. SQLite would also read the whole schema before we can
/// compare it, and the pages of a malformed file can have the same children many times.
pub(super) fn expect_token(path: &Path) -> std::io::Result<()> {
    let mut file = file::open(path, OFlags::RDONLY, 0)?;
    let mut start = Vec::with_capacity(PAGE);
    file.by_ref().take(PAGE as u64).read_to_end(&mut start)?;
    let no_token = || Error::other("this file does not have the tables of a token file");
    let page = page_size(&start).ok_or_else(no_token)?;
    file.take(page.saturating_sub(PAGE) as u64).read_to_end(&mut start)?;
    let first = start.get(..page).ok_or_else(no_token)?;
    our_schema(first).ok_or_else(no_token)?;
    match format(first) {
        Some(format) if !is_known(format) => {
            Err(Error::other(format!("unknown format of the token file: {format}; {FORMAT} is known")))
        }
        _ => Ok(()),
    }
}

fn page_size(start: &[u8]) -> Option<usize> {
    let size = u16::from_be_bytes(*start.strip_prefix(MAGIC)?.first_chunk()?);
    Some(if size == 1 { 1 << 16 } else { usize::from(size) })
}

/// Returns the format version of a token file with this first page (`user_version`).
fn format(first: &[u8]) -> Option<i64> {
    Some(i64::from(i32::from_be_bytes(*first.get(60..)?.first_chunk()?)))
}

fn is_known(format: i64) -> bool {
    (OLDEST..=FORMAT).contains(&format)
}

/// Returns the tables of a file with this first page; `None` if they are not those of a token.
fn our_schema(first: &[u8]) -> Option<Vec<schema::Table<'_>>> {
    let tables = rows(first, FILE_HEADER)?.into_iter().map(table).collect::<Option<Vec<_>>>()?;
    schema::is_ours(&tables).then_some(tables)
}

/// Reads the only row of the page of the table `token`.
fn row_of_token(page: &[u8]) -> Option<Header> {
    let [row] = rows(page, 0)?.try_into().ok()?;
    token(row)
}

fn table(row: Vec<Field<'_>>) -> Option<schema::Table<'_>> {
    let [kind, name, _, root, sql] = row.try_into().ok()?;
    Some(schema::Table { kind: kind.text()?, name: name.text()?, root: root.number()?, sql: sql.text()? })
}

fn token(row: Vec<Field<'_>>) -> Option<Header> {
    let [one, serial, slot, label, so, so_failures, user, user_failures, change, _] = row.try_into().ok()?;
    // The column `one` is the number of the row. SQLite stores NULL in its place.
    let Field::Null = one else { return None };
    let failures = |field: Field<'_>| u32::try_from(field.number()?).ok();
    Some(Header {
        serial: serial.text().filter(|serial| is_serial(serial.as_bytes()))?.to_owned(),
        slot: slot.number()?.unsigned_abs(),
        label: label.blob()?.try_into().ok()?,
        so: PinState { record: so.blob()?.to_vec(), failures: failures(so_failures)? },
        user: PinState { record: user.blob()?.to_vec(), failures: failures(user_failures)? },
        change: Change(change.number()?),
        summary: Vec::new(),
    })
}

/// A value of a row.
enum Field<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    fn text(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn blob(&self) -> Option<&'a [u8]> {
        if let Self::Blob(bytes) = self { Some(bytes) } else { None }
    }
}

/// Returns the rows of a table page that has no children. `None` if the page has another type or a
/// row does not fit into it.
fn rows(page: &[u8], start: usize) -> Option<Vec<Vec<Field<'_>>>> {
    let header = page.get(start..start + PAGE_HEADER)?;
    if header[0] != LEAF {
        return None;
    }
    let count = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let places = page.get(start + PAGE_HEADER..)?.get(..2 * count).filter(|_| count <= MOST)?;
    places.as_chunks().0.iter().map(|at| row(page.get(usize::from(u16::from_be_bytes(*at))..)?)).collect()
}

/// Reads the row at the start of these bytes.
fn row(cell: &[u8]) -> Option<Vec<Field<'_>>> {
    let (len, cell) = varint(cell)?;
    let (_, cell) = varint(cell)?;
    let payload = cell.get(..usize::try_from(len).ok().filter(|len| *len <= LOCAL)?)?;
    let (header_len, _) = varint(payload)?;
    let (header, mut body) = payload.split_at_checked(usize::try_from(header_len).ok()?)?;
    let (_, mut types) = varint(header)?;
    let mut fields = Vec::new();
    while !types.is_empty() {
        let (code, rest) = varint(types)?;
        types = rest;
        let (bytes, rest) = body.split_at_checked(field_len(code)?)?;
        body = rest;
        fields.push(field(code, bytes)?);
    }
    body.is_empty().then_some(fields)
}

/// Returns the length of a value with this type code; `None` for types that our tables do not have.
fn field_len(code: u64) -> Option<usize> {
    match code {
        0 | 8 | 9 => Some(0),
        1..=4 => usize::try_from(code).ok(),
        5 => Some(6),
        6 => Some(8),
        12.. => usize::try_from((code - 12) / 2).ok(),
        _ => None,
    }
}

fn field(code: u64, bytes: &[u8]) -> Option<Field<'_>> {
    Some(match code {
        0 => Field::Null,
        8 => Field::Number(0),
        9 => Field::Number(1),
        1..=6 => {
            let negative = bytes.first()? & 0x80 != 0;
            let first = if negative { -1 } else { 0 };
            Field::Number(bytes.iter().fold(first, |number, byte| number << 8 | i64::from(*byte)))
        }
        code if code % 2 == 0 => Field::Blob(bytes),
        _ => Field::Text(std::str::from_utf8(bytes).ok()?),
    })
}

/// Reads a number of variable length, most significant bits first. `None` for one of nine bytes,
/// which no length and no row number in these two pages has.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(8).enumerate() {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::super::OpenFile;
    use super::super::stamp::STEP;
    use super::*;

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

    fn header(pages: &[u8]) -> Option<Header> {
        let (first, second) = pages.split_at_checked(PAGE)?;
        check_first(first)?;
        row_of_token(second)
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
    fn no_altered_byte_gives_another_schema_or_a_panic() {
        let (_directory, path) = directory();
        let bytes = std::fs::read(&path).expect("a file");
        let pages = &bytes[..2 * PAGE];
        let expected = facts(&header(pages).expect("a header"));
        assert_eq!(expected, facts(&any_header()));
        for at in 0..2 * PAGE {
            for mask in [1, 0x10, 0x80, 0xff] {
                let mut altered = pages.to_vec();
                altered[at] ^= mask;
                let found = header(&altered);
                assert!(at >= PAGE || found.is_none_or(|found| facts(&found) == expected), "byte {at}");
                let same = has_same_schema(&altered[..PAGE], &pages[..PAGE]);
                assert!(!same || check_first(&altered[..PAGE]).is_some(), "byte {at}");
            }
        }
        for len in 0..2 * PAGE {
            assert!(header(&pages[..len]).is_none() || len > PAGE);
        }
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
            "PRAGMA journal_mode = DELETE",
            "UPDATE token SET so_pin = zeroblob(5000)",
            "DELETE FROM token",
        ];
        for plant in plants {
            let (_directory, path) = directory();
            let connection = rusqlite::Connection::open(&path).expect("a file");
            connection.execute_batch(plant).expect("a statement");
            drop(connection);
            let bytes = std::fs::read(&path).expect("a file");
            assert!(header(&bytes).is_none(), "{plant}");
        }
    }
}
