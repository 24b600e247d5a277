//! Kryoptic: one SQLite database for each token.
//!
//! From its sources, version 1.5.4: `storage/sqlite.rs` (tables), `storage/format.rs` (which
//! attributes are encrypted), `storage/aci.rs` (encryption), `attribute.rs` (types of values) and
//! `kasn1/mod.rs` (the DER of an encrypted value).
//!
//! The table `meta` describes the token, and has the master key encrypted under each PIN. The table
//! `objects` has one row for each attribute.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cryptoki_sys::*;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use zeroize::Zeroizing;

use super::{Error, Object, Secret, Value, file, sqlite};
use crate::object::is_flag;

mod protected;

const TABLES: [&str; 2] = ["meta", "objects"];

const VERSION: &str = "v1";

/// `USER_ID`: the name of the user's record. It is the record's additional authenticated data.
const USER: &str = "USER";

/// Kryoptic does not show objects whose `CKA_UNIQUE_ID` is a number below this one.
const FIRST_UNIQUE_ID: usize = 10;

/// The attributes of an object, as they are stored.
type Attributes = BTreeMap<CK_ATTRIBUTE_TYPE, Value>;

pub(crate) struct Token {
    path: PathBuf,
    pub(crate) label: String,
    pub(crate) serial: String,
}

impl Token {
    /// Opens the database at `path`; `None` if Kryoptic did not make it.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Error> {
        if !sqlite::is_database(path)? {
            return Ok(None);
        }
        let connection = sqlite::open(path, &[])?;
        if !sqlite::has_tables(path, &connection, &TABLES)? {
            return Ok(None);
        }
        let meta = Meta { path, connection: &connection };
        let version = meta.version()?;
        if version != VERSION {
            let reason = format!(
                "the format of this Kryoptic database has the version {version:?}, and only {VERSION:?} is supported, \
                 which Kryoptic 1.5.4 writes"
            );
            return Err(Error::Unsupported { path: path.to_owned(), reason });
        }
        let text = |name| {
            let bytes = meta.data("TOKEN INFO", name)?.unwrap_or_default();
            Ok::<_, Error>(String::from_utf8_lossy(&bytes).trim_end_matches([' ', '\0']).to_owned())
        };
        Ok(Some(Self { path: path.to_owned(), label: text("label")?, serial: text("serial")? }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn read(&self, pin: &[u8]) -> Result<Vec<Object>, Error> {
        let path = &self.path;
        let connection = sqlite::open(path, &TABLES)?;
        let record = Meta { path, connection: &connection }.data("USER DATA", USER)?;
        let record = record.ok_or_else(|| Error::NoPin(path.clone()))?;
        let master = protected::open_master(path, &record, pin, USER)?;
        let mut objects = Vec::new();
        for (number, stored) in rows(path, &connection)? {
            let name = format!("object {number}");
            let unique = Object { name: name.clone(), attributes: stored };
            let id = String::from_utf8_lossy(unique.bytes(CKA_UNIQUE_ID)).into_owned();
            if id.parse::<usize>().is_ok_and(|id| id < FIRST_UNIQUE_ID) {
                continue;
            }
            objects.push(decrypted(path, unique, &id, &master)?);
        }
        Ok(objects)
    }
}

struct Meta<'a> {
    path: &'a Path,
    connection: &'a Connection,
}

impl Meta<'_> {
    fn version(&self) -> Result<String, Error> {
        let text = "SELECT value FROM meta WHERE name = 'version'";
        self.connection.query_row(text, [], |row| row.get(0)).map_err(sqlite::broken(self.path))
    }

    fn data(&self, name: &str, value: &str) -> Result<Option<Vec<u8>>, Error> {
        let text = "SELECT data FROM meta WHERE name = ?1 AND value = ?2";
        let found = self.connection.query_row(text, [name, value], |row| row.get(0)).optional();
        found.map_err(sqlite::broken(self.path))
    }
}

/// Returns the attributes of all objects. The keys of the map are the numbers of the objects.
fn rows(path: &Path, connection: &Connection) -> Result<BTreeMap<i64, Attributes>, Error> {
    let mut objects = BTreeMap::<i64, Attributes>::new();
    let mut budget = file::Budget::of_database(path)?;
    let text = "SELECT id, attr, val FROM objects ORDER BY id";
    let mut statement = connection.prepare(text).map_err(sqlite::broken(path))?;
    let mut rows = statement.query([]).map_err(sqlite::broken(path))?;
    while let Some(row) = rows.next().map_err(sqlite::broken(path))? {
        let object: i64 = row.get(0).map_err(sqlite::broken(path))?;
        let kind = u64::from(row.get::<_, u32>(1).map_err(sqlite::broken(path))?);
        let value = row.get_ref(2).map_err(sqlite::broken(path))?;
        budget.take(value.as_bytes().map_or(0, <[u8]>::len))?;
        let value = value_of(kind, value).ok_or_else(|| bad(path, object, kind))?;
        objects.entry(object).or_default().insert(kind, value);
    }
    Ok(objects)
}

fn bad(path: &Path, object: i64, kind: CK_ATTRIBUTE_TYPE) -> Error {
    Error::damaged(path, format!("object {object}: attribute 0x{kind:X} does not have the form of its type"))
}

fn value_of(kind: CK_ATTRIBUTE_TYPE, value: ValueRef<'_>) -> Option<Value> {
    Some(match value {
        ValueRef::Integer(flag) if is_flag(kind) => Value::Flag(flag != 0),
        // num_to_val: CK_UNAVAILABLE_INFORMATION.
        ValueRef::Integer(-1) => Value::Number(u64::MAX),
        ValueRef::Integer(number) => Value::Number(number.try_into().ok()?),
        ValueRef::Text(text) if matches!(kind, CKA_START_DATE | CKA_END_DATE) => Value::Bytes(date(text)?),
        ValueRef::Text(text) => Value::Bytes(Zeroizing::new(text.to_vec())),
        ValueRef::Blob(bytes) if kind == CKA_ALLOWED_MECHANISMS => Value::Mechanisms(mechanisms(bytes)?),
        ValueRef::Blob(bytes) if is_template(kind) => Value::Template(template(bytes)?),
        ValueRef::Blob(bytes) => Value::Bytes(Zeroizing::new(bytes.to_vec())),
        ValueRef::Null => Value::Bytes(Zeroizing::default()),
        ValueRef::Real(_) => return None,
    })
}

/// Converts the stored form of a date, `YYYY-MM-DD`, to a `CK_DATE`.
fn date(text: &[u8]) -> Option<Secret> {
    match text {
        [] => Some(Zeroizing::default()),
        [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] => {
            Some(Zeroizing::new(vec![*y1, *y2, *y3, *y4, *m1, *m2, *d1, *d2]))
        }
        _ => None,
    }
}

fn mechanisms(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

const fn is_template(kind: CK_ATTRIBUTE_TYPE) -> bool {
    matches!(
        kind,
        CKA_WRAP_TEMPLATE..=CKA_DERIVE_TEMPLATE | CKA_ENCAPSULATE_TEMPLATE | CKA_DECAPSULATE_TEMPLATE
    )
}

/// `deserialize_template`: a count of 4 bytes, then the attributes. Each attribute is a type of 8
/// bytes, a length of 4 bytes, and a value in the form of the C interface.
fn template(mut bytes: &[u8]) -> Option<Vec<(CK_ATTRIBUTE_TYPE, Value)>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let count = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
    let mut attributes = Vec::new();
    for _ in 0..count {
        let kind = u64::from_le_bytes(*bytes.split_off(..8)?.first_chunk()?);
        let length = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
        let value = bytes.split_off(..usize::try_from(length).ok()?)?;
        let value = match value {
            [flag] if is_flag(kind) => Value::Flag(*flag != 0),
            value if kind == CKA_ALLOWED_MECHANISMS => Value::Mechanisms(mechanisms(value)?),
            _ if is_template(kind) => return None,
            value => Value::Bytes(Zeroizing::new(value.to_vec())),
        };
        attributes.push((kind, value));
    }
    bytes.is_empty().then_some(attributes)
}

/// Decrypts the secret values of an object. The object's `CKA_UNIQUE_ID` is authenticated with each
/// of them.
fn decrypted(path: &Path, mut object: Object, id: &str, master: &protected::Master) -> Result<Object, Error> {
    let (class, key_type) = (object.number(CKA_CLASS), object.number(CKA_KEY_TYPE));
    let name = object.name.clone();
    for (kind, value) in &mut object.attributes {
        if let Value::Bytes(bytes) = value
            && is_encrypted(class, key_type, *kind)
        {
            *bytes = protected::open_value(path, bytes, master, id)?.ok_or_else(|| {
                Error::damaged(path, format!("{name}: attribute 0x{kind:X} cannot be decrypted"))
            })?;
        }
    }
    Ok(object)
}

/// Returns whether Kryoptic encrypts an attribute: its object factories mark it with
/// `OAFlags::Sensitive`. The value of a Diffie-Hellman key has no such mark, and Kryoptic stores it
/// in clear.
const fn is_encrypted(class: Option<u64>, key_type: Option<u64>, kind: CK_ATTRIBUTE_TYPE) -> bool {
    match (class, kind) {
        (Some(CKO_SECRET_KEY), CKA_VALUE) => true,
        (Some(CKO_PRIVATE_KEY), CKA_VALUE) => !matches!(key_type, Some(CKK_DH)),
        (
            Some(CKO_PRIVATE_KEY),
            CKA_SEED | CKA_PRIVATE_EXPONENT | CKA_PRIME_1 | CKA_PRIME_2 | CKA_EXPONENT_1 | CKA_EXPONENT_2
            | CKA_COEFFICIENT,
        ) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_as_kryoptic_writes_it() {
        let attribute = |kind: u64, value: &[u8]| {
            [&kind.to_le_bytes()[..], &(value.len() as u32).to_le_bytes(), value].concat()
        };
        let bytes = [
            &3_u32.to_le_bytes()[..],
            &attribute(CKA_EXTRACTABLE, &[1]),
            &attribute(CKA_ID, b"id"),
            &attribute(CKA_ALLOWED_MECHANISMS, &0x1082_u64.to_le_bytes()),
        ]
        .concat();
        let wanted = vec![
            (CKA_EXTRACTABLE, Value::Flag(true)),
            (CKA_ID, Value::Bytes(b"id".to_vec().into())),
            (CKA_ALLOWED_MECHANISMS, Value::Mechanisms(vec![0x1082])),
        ];
        assert_eq!(template(&bytes), Some(wanted));
        for length in 1..bytes.len() {
            assert_eq!(template(&bytes[..length]), None);
        }
        assert_eq!(template(&u32::MAX.to_le_bytes()), None);
        let inner = attribute(CKA_WRAP_TEMPLATE, &0_u32.to_le_bytes());
        assert_eq!(template(&[&1_u32.to_le_bytes()[..], &inner].concat()), None);
    }

    #[test]
    fn a_date_is_read_without_its_hyphens() {
        assert_eq!(date(b"2026-11-22").as_deref(), Some(&b"20261122".to_vec()));
        assert_eq!(date(b"").as_deref(), Some(&Vec::new()));
        assert_eq!(date(b"20261122"), None);
    }
}
