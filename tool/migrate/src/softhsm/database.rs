//! The SQLite backend of SoftHSMv2: one table for each kind of value. The first object describes
//! the token.
//!
//! `DBObject.cpp` writes templates and lists of mechanisms as SoftHSMv2 has them in memory. So the
//! numbers have the byte order of the supported platforms, little-endian.

use std::collections::BTreeMap;
use std::path::Path;

use cryptoki_sys::{CK_ATTRIBUTE_TYPE, CKA_ALLOWED_MECHANISMS};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use zeroize::Zeroizing;

use super::Attributes;
use crate::{Error, Value, file, sqlite};

/// `DBTOKEN_OBJECT_TOKENINFO`
const TOKEN: i64 = 1;

const TABLES: [&str; 5] =
    ["object", "attribute_boolean", "attribute_integer", "attribute_binary", "attribute_array"];

pub(super) fn token(path: &Path) -> Result<Attributes, Error> {
    let connection = sqlite::open(path, &TABLES)?;
    let own = read(path, &connection, "object_id = 1")?.remove(&TOKEN);
    own.ok_or_else(|| Error::damaged(path, "the token's own object is missing"))
}

/// Returns the attributes of all objects. The keys of the map are the numbers of the objects.
pub(super) fn objects(path: &Path) -> Result<BTreeMap<i64, Attributes>, Error> {
    let connection = sqlite::open(path, &TABLES)?;
    // SoftHSMv2 ignores attributes whose object is missing.
    read(path, &connection, "object_id <> 1 AND object_id IN (SELECT id FROM object)")
}

fn read(path: &Path, connection: &Connection, which: &str) -> Result<BTreeMap<i64, Attributes>, Error> {
    let mut objects = BTreeMap::<i64, Attributes>::new();
    let mut budget = file::Budget::of_database(path)?;
    for table in &TABLES[1..] {
        let text = format!("SELECT object_id, type, value FROM {table} WHERE {which} ORDER BY id");
        let mut statement = connection.prepare(&text).map_err(sqlite::broken(path))?;
        let mut rows = statement.query([]).map_err(sqlite::broken(path))?;
        while let Some(row) = rows.next().map_err(sqlite::broken(path))? {
            let (object, kind) = numbers(row).map_err(sqlite::broken(path))?;
            let value = row.get_ref(2).map_err(sqlite::broken(path))?;
            budget.take(value.as_bytes().map_or(0, <[u8]>::len))?;
            let value = value_of(table, kind, value)
                .ok_or_else(|| Error::damaged(path, format!("object {object}, attribute 0x{kind:X}")))?;
            objects.entry(object).or_default().insert(kind, value);
        }
    }
    Ok(objects)
}

fn numbers(row: &Row<'_>) -> rusqlite::Result<(i64, CK_ATTRIBUTE_TYPE)> {
    // SQLite's integers are signed.
    Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
}

fn value_of(table: &str, kind: CK_ATTRIBUTE_TYPE, value: ValueRef<'_>) -> Option<Value> {
    Some(match (table, value) {
        ("attribute_boolean", ValueRef::Integer(flag)) => Value::Flag(flag != 0),
        ("attribute_integer", ValueRef::Integer(number)) => Value::Number(number.cast_unsigned()),
        ("attribute_binary", ValueRef::Blob(bytes)) if kind == CKA_ALLOWED_MECHANISMS => {
            Value::Mechanisms(mechanisms(bytes)?)
        }
        ("attribute_binary", ValueRef::Null) if kind == CKA_ALLOWED_MECHANISMS => {
            Value::Mechanisms(Vec::new())
        }
        ("attribute_binary", ValueRef::Blob(bytes)) => Value::Bytes(Zeroizing::new(bytes.to_vec())),
        // SQLite stores an empty byte array as NULL if its pointer is NULL.
        ("attribute_binary", ValueRef::Null) => Value::Bytes(Zeroizing::default()),
        ("attribute_array", ValueRef::Blob(bytes)) => Value::Template(template(bytes)?),
        ("attribute_array", ValueRef::Null) => Value::Template(Vec::new()),
        _ => return None,
    })
}

fn mechanisms(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Reads attributes: a type of 8 bytes, a kind of 4 bytes (a C enumeration), a value.
fn template(mut bytes: &[u8]) -> Option<Vec<(CK_ATTRIBUTE_TYPE, Value)>> {
    let mut attributes = Vec::new();
    while !bytes.is_empty() {
        let kind = number(&mut bytes)?;
        let tag = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
        let value = match tag {
            1 => Value::Flag(bytes.split_off(..1)?[0] != 0),
            2 => Value::Number(number(&mut bytes)?),
            3 => Value::Bytes(Zeroizing::new(counted(&mut bytes)?.to_vec())),
            5 => Value::Mechanisms(mechanisms(counted(&mut bytes)?)?),
            _ => return None,
        };
        attributes.push((kind, value));
    }
    Some(attributes)
}

fn counted<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(bytes)?).ok()?;
    bytes.split_off(..length)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_as_softhsm_writes_it() {
        let n = |number: u64| number.to_le_bytes();
        let attribute = |id: u64, tag: u32, value: &[u8]| [&n(id)[..], &tag.to_le_bytes(), value].concat();
        let bytes = [
            attribute(0x162, 1, &[1]),
            attribute(0x100, 2, &n(31)),
            attribute(0x102, 3, &[&n(2)[..], b"id"].concat()),
            attribute(0x4000_0600, 5, &[n(8), n(0x1082)].concat()),
        ]
        .concat();
        let wanted = vec![
            (0x162, Value::Flag(true)),
            (0x100, Value::Number(31)),
            (0x102, Value::Bytes(b"id".to_vec().into())),
            (0x4000_0600, Value::Mechanisms(vec![0x1082])),
        ];
        assert_eq!(template(&bytes), Some(wanted));
        for length in 1..bytes.len() {
            // A truncation between two attributes cannot be detected.
            let _ = template(&bytes[..length]);
        }
        assert_eq!(template(&attribute(3, 3, &n(u64::MAX))), None);
    }
}
