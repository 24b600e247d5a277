//! The fuzz target of a token file that an attacker altered. It opens the token through the module,
//! reads the public objects, logs in and reads the other objects. Before the login the module reads
//! altered public records. After the login the module refuses every record with a wrong tag.

use std::cell::RefCell;
use std::path::Path;
use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton::store::seal::{record, summary};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::{run, templates};
use crate::source::Source;
use crate::token::Token;

const COLUMNS: [&str; 9] =
    ["serial", "slot", "label", "so_pin", "so_failures", "user_pin", "user_failures", "change", "summary"];
/// The length of the head of a public record: format, kind, nonce. The tag follows.
const HEAD: usize = 2 + 24;
const TAG: usize = 16;

thread_local! {
    static TOKEN: RefCell<Token> = RefCell::new(Token::new(false));
}

/// Alters a token as `bytes` describe and reads it. Also reads `bytes` as a record and as a
/// summary.
pub fn read(bytes: &[u8]) {
    drop((record::peek(bytes), record::tag(bytes), summary::Summary::decode(bytes)));
    TOKEN.with_borrow_mut(|token| {
        let mut source = Source::new(bytes);
        token.write_files();
        for file in token.paths() {
            alter(&file, &mut source);
        }
        token.read_all();
    });
}

/// Alters the file up to four times. If SQLite refuses an alteration, the next one may succeed.
pub(crate) fn alter(file: &Path, source: &mut Source<'_>) {
    let Ok(database) = Connection::open(file) else { return };
    let _ = database.pragma_update(None, "synchronous", "OFF");
    for _ in 0..4 {
        if source.is_empty() {
            return;
        }
        let _ = match source.below(6) {
            0 => insert(&database, source),
            1 => replace(&database, source),
            2 | 3 => set(&database, source),
            4 => row(&database, source),
            // Replaces the table by one whose columns accept values of any type.
            _ => database.execute_batch(
                "CREATE TABLE loose AS SELECT * FROM token; DROP TABLE token; ALTER TABLE loose RENAME TO token",
            ),
        };
    }
}

fn insert(database: &Connection, source: &mut Source<'_>) -> rusqlite::Result<()> {
    let (id, record) = (source.number() as i64, record(source));
    let tag = &record[HEAD..HEAD + TAG];
    let sql = "INSERT INTO object VALUES(?1, ?2, ?3, ?4)";
    database.execute(sql, params![id, source.once_in(4), tag, source.bytes()])?;
    database.execute("INSERT INTO record VALUES(?1, ?2)", params![id, record]).map(drop)
}

fn replace(database: &Connection, source: &mut Source<'_>) -> rusqlite::Result<()> {
    let (at, record) = (source.below(16) as i64, record(source));
    let sql = "SELECT id FROM object WHERE private = 0 ORDER BY id LIMIT 1 OFFSET ?1";
    let id: i64 = database.query_row(sql, [at], |row| row.get(0))?;
    database.execute("UPDATE object SET tag = ?2 WHERE id = ?1", params![id, &record[HEAD..HEAD + TAG]])?;
    database.execute("UPDATE record SET body = ?2 WHERE id = ?1", params![id, record]).map(drop)
}

fn set(database: &Connection, source: &mut Source<'_>) -> rusqlite::Result<()> {
    let column = source.one(&COLUMNS);
    let value = match column {
        "so_pin" | "user_pin" if !source.once_in(4) => Value::Blob(pin(source)),
        "slot" | "so_failures" | "user_failures" | "change" => Value::Integer(source.number() as i64),
        _ => value(source),
    };
    database.execute(&format!("UPDATE token SET {column} = ?1"), [value]).map(drop)
}

fn row(database: &Connection, source: &mut Source<'_>) -> rusqlite::Result<()> {
    let column = source.one(&["id", "private", "tag", "names"]);
    let (value, at) = (value(source), source.below(16) as i64);
    let sql = format!("UPDATE object SET {column} = ?1 WHERE id = (SELECT id FROM object LIMIT 1 OFFSET ?2)");
    database.execute(&sql, params![value, at]).map(drop)
}

fn value(source: &mut Source<'_>) -> Value {
    match source.below(6) {
        0 => Value::Null,
        1 => Value::Integer(source.number() as i64),
        2 => Value::Real(source.number() as f64),
        3 => Value::Text(String::from_utf8_lossy(&source.bytes()).into_owned()),
        _ => Value::Blob(source.bytes()),
    }
}

/// A PIN record: the parameters of Argon2id, a salt, a wrapped key.
fn pin(source: &mut Source<'_>) -> Vec<u8> {
    let mut record = Vec::new();
    // The parameters are small or invalid, because a slow computation is not a finding.
    varint(&mut record, source.one(&[8, 0, 7, 64, (1 << 20) + 1, 0xffff_ffff]));
    varint(&mut record, source.one(&[1, 0, 2, 65, 0xffff_ffff]));
    record.extend([7; 16]);
    let wrapped = source.bytes();
    varint(&mut record, wrapped.len() as u64);
    record.extend(wrapped);
    record
}

/// Returns a public record, or an invalid one.
fn record(source: &mut Source<'_>) -> Vec<u8> {
    let mut record = vec![1, 2];
    record.resize(HEAD + TAG, 5);
    match source.below(8) {
        0 => record[source.below(HEAD)] = source.byte(),
        1 => record.extend(source.bytes()),
        2 => nest(&mut record, source),
        _ => attributes(&mut record, source, 6),
    }
    record
}

/// Adds deeply nested templates.
fn nest(record: &mut Vec<u8>, source: &mut Source<'_>) {
    for _ in 0..1 << source.below(18) {
        // One attribute, numbered 17, which is a template.
        record.extend([1, 17, 4]);
    }
    record.push(0);
}

fn attributes(record: &mut Vec<u8>, source: &mut Source<'_>, depth: usize) {
    let count = source.below(12);
    let said = if source.once_in(32) { source.number() } else { count as u64 };
    varint(record, said);
    for _ in 0..count {
        let id = if source.once_in(8) { source.number() } else { source.one(&templates::KNOWN) };
        varint(record, id);
        match source.below(6) {
            0 => record.extend([0, source.byte()]),
            1 => {
                record.push(1);
                varint(record, source.number());
            }
            2 => {
                record.push(3);
                let numbers = source.below(4);
                varint(record, numbers as u64);
                (0..numbers).for_each(|_| varint(record, source.number()));
            }
            3 if depth > 0 => {
                record.push(4);
                attributes(record, source, depth - 1);
            }
            _ => {
                let bytes = source.bytes();
                record.push(2);
                varint(record, bytes.len() as u64);
                record.extend(bytes);
            }
        }
    }
}

fn varint(record: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        record.push(number as u8 | 0x80);
        number >>= 7;
    }
    record.push(number as u8);
}

impl Token {
    /// Reads the information about each token, and its objects before and after a login. Then
    /// creates an object.
    fn read_all(&mut self) {
        let call = |rv: CK_RV| assert!(rv == CKR_GENERAL_ERROR || run::is_known(rv), "{rv:#x}");
        let mut slots = [0; 16];
        let mut count = slots.len() as CK_ULONG;
        self.initialize();
        // SAFETY: `slots` has room for `count` slots.
        call(unsafe {
            self.list.C_GetSlotList.expect("an entry")(CK_TRUE, slots.as_mut_ptr(), &raw mut count)
        });
        for slot in slots.into_iter().take(count as usize) {
            let mut info = CK_TOKEN_INFO::default();
            // SAFETY: `info` is writable.
            call(unsafe { self.list.C_GetTokenInfo.expect("an entry")(slot, &raw mut info) });
            let Some(session) = self.session_in(slot) else { continue };
            self.read_objects(session, &call);
            call(self.log_in(session));
            self.read_objects(session, &call);
            call(self.make_data(session));
        }
        self.finalize();
    }

    fn read_objects(&self, session: CK_SESSION_HANDLE, call: &impl Fn(CK_RV)) {
        for object in self.found(session) {
            let mut values = vec![[0_u8; 512]; templates::KNOWN.len()];
            let mut template: Vec<_> = std::iter::zip(templates::KNOWN, &mut values)
                .map(|(type_, value)| CK_ATTRIBUTE {
                    type_,
                    pValue: value.as_mut_ptr().cast(),
                    ulValueLen: 512,
                })
                .collect();
            let (first, count) = (template.as_mut_ptr(), template.len() as CK_ULONG);
            // SAFETY: each attribute has a buffer of its length.
            call(unsafe { self.list.C_GetAttributeValue.expect("an entry")(session, object, first, count) });
            let mut size = 0;
            // SAFETY: `size` is writable.
            call(unsafe { self.list.C_GetObjectSize.expect("an entry")(session, object, &raw mut size) });
            for mechanism in [CKM_RSA_PKCS, CKM_ECDSA, CKM_EDDSA, CKM_ML_DSA, CKM_SLH_DSA, CKM_SHA256_HMAC] {
                let mut with = CK_MECHANISM { mechanism, ..Default::default() };
                // SAFETY: a mechanism without parameter. The call with NULL ends the operation.
                unsafe {
                    call(self.list.C_VerifyInit.expect("an entry")(session, &raw mut with, object));
                    call(self.list.C_VerifyInit.expect("an entry")(session, null_mut(), object));
                }
            }
        }
    }
}
