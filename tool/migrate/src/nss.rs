//! NSS: `key4.db` with private and secret keys, `cert9.db` with everything else.
//!
//! From its sources: `sdb.c` (tables), `sftkdb.c` (numbers, which attributes are encrypted and
//! which are authenticated), `sftkpwd.c` and `lowpbe.c` (encryption).
//!
//! The column of an attribute has the name `a`, followed by the attribute's number in hexadecimal.
//! The table `metaData` of `key4.db` has the password record, and the MACs of encrypted and of
//! authenticated attributes.

mod pbe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{self, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA384};
use cryptoki_sys::*;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use zeroize::Zeroizing;

use super::{Error, Object, Secret, Value, file, sqlite};
use crate::object::is_flag;

pub(crate) const KEYS: &str = "key4.db";

/// The database of certificates and public keys.
const CERTIFICATES: &str = "cert9.db";

/// The bytes that NSS stores for an empty value (`SQLITE_EXPLICIT_NULL`). NULL in a column means
/// that the object does not have the attribute.
const EMPTY: &[u8] = &[0xa5, 0x00, 0x5a];

/// The decrypted content of the password record if the password is correct.
const PASSWORD_CHECK: &[u8] = b"password-check";

/// A database directory of NSS.
pub(crate) struct Database {
    directory: PathBuf,
}

impl Database {
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the name of the directory: NSS stores no label.
    pub(crate) fn label(&self) -> String {
        let path = std::fs::canonicalize(&self.directory).unwrap_or_else(|_| self.directory.clone());
        path.file_name().map_or("NSS".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    pub(crate) fn read(&self, password: &[u8]) -> Result<Vec<Object>, Error> {
        let path = self.directory.join(KEYS);
        let connection = sqlite::open(&path, &["nssPrivate", "metaData"])?;
        let keys =
            Keys { codes: Codes::read(&path, &connection)?, key: self.key(&path, &connection, password)? };
        let mut objects = keys.objects(&path, &connection, Side::Keys)?;
        let path = self.directory.join(CERTIFICATES);
        if path.is_file() {
            let connection = sqlite::open(&path, &["nssPublic"])?;
            objects.extend(keys.objects(&path, &connection, Side::Certificates)?);
        }
        Ok(objects)
    }

    /// Derives the key from the password: a digest with the global salt. Fails with
    /// [`Error::WrongPin`] if the key does not decrypt the password record.
    fn key(&self, path: &Path, connection: &Connection, password: &[u8]) -> Result<Secret, Error> {
        let text = "SELECT item1, item2 FROM metaData WHERE id = 'password'";
        let record = connection
            .query_row(text, [], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?)))
            .optional()
            .map_err(sqlite::broken(path))?;
        let Some((salt, record)) = record else { return Err(Error::NoPin(path.to_owned())) };
        let key = digest(&salt, password);
        let key = Zeroizing::new(key.as_ref().to_vec());
        let plain = pbe::decrypt(path, &record, &key)?;
        match plain {
            Some(plain) if plain[..] == *PASSWORD_CHECK => Ok(key),
            _ => Err(Error::WrongPin(path.to_owned())),
        }
    }
}

fn digest(salt: &[u8], password: &[u8]) -> Digest {
    let algorithm = if salt.len() == 48 { &SHA384 } else { &SHA1_FOR_LEGACY_USE_ONLY };
    let mut context = digest::Context::new(algorithm);
    context.update(salt);
    context.update(password);
    context.finish()
}

/// One of the two databases: `key4.db` or `cert9.db`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Keys,
    Certificates,
}

impl Side {
    const fn table(self) -> &'static str {
        match self {
            Self::Keys => "nssPrivate",
            Self::Certificates => "nssPublic",
        }
    }

    /// Returns the word that the names of MACs contain (`sftkdb_TypeString`).
    const fn word(self) -> &'static str {
        match self {
            Self::Keys => "key",
            Self::Certificates => "cert",
        }
    }
}

/// The MACs of encrypted and of authenticated attributes, by their names in the table.
struct Codes(BTreeMap<String, Vec<u8>>);

impl Codes {
    fn read(path: &Path, connection: &Connection) -> Result<Self, Error> {
        let text = "SELECT id, item1 FROM metaData WHERE id LIKE 'sig\\_%' ESCAPE '\\'";
        let mut statement = connection.prepare(text).map_err(sqlite::broken(path))?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let codes = rows.and_then(Iterator::collect).map_err(sqlite::broken(path))?;
        Ok(Self(codes))
    }

    fn get(&self, side: Side, object: u32, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.0.get(&format!("sig_{}_{object:08x}_{kind:08x}", side.word())).map(Vec::as_slice)
    }
}

/// Decrypts and verifies the values of a database.
struct Keys {
    codes: Codes,
    key: Secret,
}

impl Keys {
    fn objects(&self, path: &Path, connection: &Connection, side: Side) -> Result<Vec<Object>, Error> {
        let columns = columns(connection, side).map_err(sqlite::broken(path))?;
        let names: String = columns.iter().map(|kind| format!(", a{kind:x}")).collect();
        let text = format!("SELECT id{names} FROM {} ORDER BY id", side.table());
        let mut statement = connection.prepare(&text).map_err(sqlite::broken(path))?;
        let mut rows = statement.query([]).map_err(sqlite::broken(path))?;
        let mut objects = Vec::new();
        let mut budget = file::Budget::of_database(path)?;
        while let Some(row) = rows.next().map_err(sqlite::broken(path))? {
            let number: u32 = row.get(0).map_err(sqlite::broken(path))?;
            let mut attributes = BTreeMap::new();
            for (index, kind) in columns.iter().copied().enumerate() {
                match row.get_ref(index + 1).map_err(sqlite::broken(path))? {
                    ValueRef::Null => {}
                    ValueRef::Blob(stored) => {
                        budget.take(stored.len())?;
                        let value = self.value(path, side, number, kind, stored)?;
                        attributes.insert(kind, value);
                    }
                    _ => return Err(bad(path, number, kind, "is not a byte array")),
                }
            }
            objects.push(Object { name: format!("{} {number:08x}", side.table()), attributes });
        }
        Ok(objects)
    }

    fn value(
        &self,
        path: &Path,
        side: Side,
        object: u32,
        kind: CK_ATTRIBUTE_TYPE,
        stored: &[u8],
    ) -> Result<Value, Error> {
        // The MAC of an empty value covers no byte of the marker. An encrypted value has at least
        // one block.
        let stored = if stored == EMPTY { &[] } else { stored };
        if side == Side::Keys && is_encrypted(kind) {
            return self.decrypted(path, object, kind, stored).map(Value::Bytes);
        }
        if is_authenticated(kind) {
            let code = self.codes.get(side, object, kind);
            // Older versions of NSS wrote no MACs for these attributes, so a missing MAC is not an
            // error.
            if let Some(code) = code
                && !pbe::verify(path, code, &self.key, object, kind, stored)?
            {
                return Err(bad(path, object, kind, "was altered: its MAC does not verify"));
            }
        }
        // Every trust value except "unknown" needs a MAC. NSS treats a value without a MAC as
        // "unknown".
        if is_trust(kind) && !TRUST_UNKNOWN.contains(&stored) {
            let code =
                self.codes.get(side, object, kind).ok_or_else(|| bad(path, object, kind, "has no MAC"))?;
            if !pbe::verify(path, code, &self.key, object, kind, stored)? {
                return Err(bad(path, object, kind, "was altered: its MAC does not verify"));
            }
        }
        let value = match stored {
            [flag @ 0..=1] if is_flag(kind) => Value::Flag(*flag == 1),
            [_, ..] if is_number(kind) => {
                let number =
                    <[u8; 4]>::try_from(stored).map_err(|_| bad(path, object, kind, "is not a number"))?;
                Value::Number(wide(u32::from_be_bytes(number)))
            }
            stored => Value::Bytes(Zeroizing::new(stored.to_vec())),
        };
        Ok(value)
    }

    fn decrypted(
        &self,
        path: &Path,
        object: u32,
        kind: CK_ATTRIBUTE_TYPE,
        stored: &[u8],
    ) -> Result<Secret, Error> {
        let plain = pbe::decrypt(path, stored, &self.key)?;
        let plain = plain.ok_or_else(|| bad(path, object, kind, "cannot be decrypted"))?;
        // Bug 1720226 of NSS: some versions stored the MAC under another number.
        let code =
            [object, object | 0xc000_0000].into_iter().find_map(|id| self.codes.get(Side::Keys, id, kind));
        let code = code.ok_or_else(|| bad(path, object, kind, "has no MAC"))?;
        // The MAC of an encrypted attribute covers CK_INVALID_HANDLE instead of the object's
        // number.
        if pbe::verify(path, code, &self.key, 0, kind, &plain)? {
            Ok(plain)
        } else {
            Err(bad(path, object, kind, "was altered: its MAC does not verify"))
        }
    }
}

fn bad(path: &Path, object: u32, kind: CK_ATTRIBUTE_TYPE, what: &str) -> Error {
    Error::damaged(path, format!("object {object:08x}: attribute 0x{kind:X} {what}"))
}

/// Returns the attributes that a table has columns for. It does not use rusqlite's `column_names`,
/// which panics if a name is not UTF-8.
fn columns(connection: &Connection, side: Side) -> rusqlite::Result<Vec<CK_ATTRIBUTE_TYPE>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let mut rows = statement.query([side.table()])?;
    let mut columns = Vec::new();
    while let Some(row) = rows.next()? {
        // The name of a column is "a" and the number of the attribute.
        let digits = row.get_ref(0)?.as_str().ok().and_then(|name| name.strip_prefix('a'));
        columns.extend(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).map(u64::from));
    }
    Ok(columns)
}

/// Returns a number as `CK_ULONG`. NSS stores only the low 4 bytes of `CK_UNAVAILABLE_INFORMATION`.
fn wide(number: u32) -> u64 {
    if number == u32::MAX { u64::MAX } else { number.into() }
}

/// `sftkdb_isPrivateAttribute`
const fn is_encrypted(kind: CK_ATTRIBUTE_TYPE) -> bool {
    // The secret numbers of an RSA key follow each other.
    matches!(kind, CKA_VALUE | CKA_SEED | CKA_PRIVATE_EXPONENT..=CKA_COEFFICIENT)
}

/// `CKA_TRUST_SERVER_AUTH`, `…_CLIENT_AUTH`, `…_CODE_SIGNING` and `…_EMAIL_PROTECTION`, which are
/// authenticated too. NSS 3.132 has the numbers of PKCS#11 3.2, NSS 3.87 has its own.
const fn is_trust(kind: CK_ATTRIBUTE_TYPE) -> bool {
    matches!(kind, CKA_TRUST_SERVER_AUTH..=CKA_TRUST_EMAIL_PROTECTION | 0xce53_6358..=0xce53_635b)
}

const TRUST_UNKNOWN: [&[u8]; 2] = [&[0; 4], &[0xce, 0x53, 0x43, 0x55]];

/// `sftkdb_isAuthenticatedAttribute`, without the levels of trust.
const fn is_authenticated(kind: CK_ATTRIBUTE_TYPE) -> bool {
    // The last number is `CKA_NSS_CERT_SHA1_HASH`.
    matches!(
        kind,
        CKA_MODULUS | CKA_PUBLIC_EXPONENT | CKA_NAME_HASH_ALGORITHM | CKA_HASH_OF_CERTIFICATE | 0xce53_63b4
    )
}

/// `sftkdb_isULONGAttribute`
const fn is_number(kind: CK_ATTRIBUTE_TYPE) -> bool {
    matches!(
        kind,
        CKA_CERTIFICATE_CATEGORY
            | CKA_CERTIFICATE_TYPE
            | CKA_CLASS
            | CKA_JAVA_MIDP_SECURITY_DOMAIN
            | CKA_KEY_GEN_MECHANISM
            | CKA_KEY_TYPE
            | CKA_MECHANISM_TYPE
            | CKA_MODULUS_BITS
            | CKA_PRIME_BITS
            | CKA_SUBPRIME_BITS
            | CKA_VALUE_BITS
            | CKA_VALUE_LEN
            | CKA_PARAMETER_SET
            | CKA_NAME_HASH_ALGORITHM
            | CKA_TRUST_SERVER_AUTH..=CKA_TRUST_OCSP_SIGNING
    ) || (NSS_TRUST_FIRST <= kind && kind <= NSS_TRUST_LAST)
}

/// `CKA_TRUST_DIGITAL_SIGNATURE` to `CKA_TRUST_TIME_STAMPING` of NSS.
const NSS_TRUST_FIRST: CK_ATTRIBUTE_TYPE = 0xce53_6351;
const NSS_TRUST_LAST: CK_ATTRIBUTE_TYPE = 0xce53_635f;
