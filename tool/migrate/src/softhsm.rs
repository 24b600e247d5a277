//! SoftHSMv2: a directory for each token.
//!
//! From its sources: `OSToken.cpp`, `ObjectFile.cpp`, `File.cpp` (file backend), `DBToken.cpp`,
//! `DBObject.cpp` (SQLite backend), `SecureDataManager.cpp` and `RFC4880.cpp` (encryption).

mod database;
mod object_file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{self, SHA256};
use cryptoki_sys::{CK_ATTRIBUTE_TYPE, CKA_END_DATE, CKA_PRIVATE, CKA_START_DATE, CKA_VENDOR_DEFINED};

use super::{Error, Format, Object, Secret, Value, file};
use crate::cipher::decrypt_with_iv;

/// `CKA_OS_*`: the attributes of the token itself.
const OS: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED + 0x5348;
const OS_LABEL: CK_ATTRIBUTE_TYPE = OS + 1;
const OS_SERIAL: CK_ATTRIBUTE_TYPE = OS + 2;
const OS_USER_PIN: CK_ATTRIBUTE_TYPE = OS + 5;

const TOKEN_FILE: &str = "token.object";

const DATABASE: &str = "sqlite3.db";

/// The attributes of an object or of the token, as they are stored.
type Attributes = BTreeMap<CK_ATTRIBUTE_TYPE, Value>;

/// A token of SoftHSMv2, with the attributes that were read from the token's own object.
pub(crate) struct Token {
    directory: PathBuf,
    backend: Backend,
    pub(crate) label: String,
    pub(crate) serial: String,
    /// The token's key, encrypted under the user's PIN; empty if the PIN was never set.
    user_pin: Secret,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Backend {
    Files,
    Database,
}

/// Returns the tokens in a token directory. If the directory is that of one token, returns this
/// token.
pub(crate) fn tokens(directory: &Path) -> Result<Vec<Token>, Error> {
    if let Some(backend) = Backend::of(directory) {
        return Ok(vec![Token::open(directory, backend)?]);
    }
    let mut tokens = Vec::new();
    for path in file::entries(directory)? {
        if let Some(backend) = Backend::of(&path) {
            tokens.push(Token::open(&path, backend)?);
        }
    }
    Ok(tokens)
}

impl Backend {
    fn of(directory: &Path) -> Option<Self> {
        if directory.join(TOKEN_FILE).is_file() {
            Some(Self::Files)
        } else if directory.join(DATABASE).is_file() {
            Some(Self::Database)
        } else {
            None
        }
    }
}

impl Token {
    fn open(directory: &Path, backend: Backend) -> Result<Self, Error> {
        let own = match backend {
            Backend::Files => {
                let path = directory.join(TOKEN_FILE);
                object_file::parse(&path, &file::read(&path)?)?
            }
            Backend::Database => database::token(&directory.join(DATABASE))?,
        };
        let own = Object { name: String::new(), attributes: own };
        let text = |kind| String::from_utf8_lossy(own.bytes(kind)).trim_end_matches([' ', '\0']).to_owned();
        Ok(Self {
            directory: directory.to_owned(),
            backend,
            label: text(OS_LABEL),
            serial: text(OS_SERIAL),
            user_pin: own.bytes(OS_USER_PIN).to_vec().into(),
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn format(&self) -> Format {
        match self.backend {
            Backend::Files => Format::SoftHsmFiles,
            Backend::Database => Format::SoftHsmDatabase,
        }
    }

    pub(crate) fn read(&self, pin: &[u8]) -> Result<Vec<Object>, Error> {
        let key = self.key(pin)?;
        match self.backend {
            Backend::Files => self.read_files(&key),
            Backend::Database => {
                let path = self.directory.join(DATABASE);
                let stored = database::objects(&path)?;
                stored
                    .into_iter()
                    .map(|(number, stored)| decrypted(&path, format!("object {number}"), stored, &key))
                    .collect()
            }
        }
    }

    fn read_files(&self, key: &[u8]) -> Result<Vec<Object>, Error> {
        let mut objects = Vec::new();
        let mut budget = file::Budget::of_directory(&self.directory);
        for path in file::entries(&self.directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name != TOKEN_FILE && path.extension().is_some_and(|extension| extension == "object") {
                let content = file::read(&path)?;
                budget.take(content.len())?;
                objects.push(decrypted(&path, name, object_file::parse(&path, &content)?, key)?);
            }
        }
        Ok(objects)
    }

    /// Returns the key of the token. `SecureDataManager::login`: the record is a salt of 8 bytes,
    /// an initialisation vector, and the encryption of "RJR" and the key.
    fn key(&self, pin: &[u8]) -> Result<Secret, Error> {
        if self.user_pin.is_empty() {
            return Err(Error::NoPin(self.directory.clone()));
        }
        let wrong = || Error::WrongPin(self.directory.clone());
        let (salt, rest) = self.user_pin.split_first_chunk::<8>().ok_or_else(wrong)?;
        let plain = decrypt_with_iv(&derive(pin, salt), rest).ok_or_else(wrong)?;
        match plain.strip_prefix(b"RJR") {
            Some(key) if key.len() == 32 => Ok(key.to_vec().into()),
            _ => Err(wrong()),
        }
    }
}

/// `RFC4880::PBEDeriveKey`: SHA-256 of salt and PIN, then of the previous digest. The last byte of
/// the salt is added to the number of iterations.
fn derive(pin: &[u8], salt: &[u8; 8]) -> Secret {
    let mut first = Secret::new(salt.to_vec());
    first.extend_from_slice(pin);
    let mut digest = Secret::new(digest::digest(&SHA256, &first).as_ref().to_vec());
    for _ in 1..1500 + u32::from(salt[7]) {
        let next = digest::digest(&SHA256, &digest);
        digest.copy_from_slice(next.as_ref());
    }
    digest
}

/// Decrypts the byte arrays of a private object.
fn decrypted(path: &Path, name: String, stored: Attributes, key: &[u8]) -> Result<Object, Error> {
    let private = stored.get(&CKA_PRIVATE) == Some(&Value::Flag(true));
    let mut attributes = Attributes::new();
    for (kind, value) in stored {
        let value = match value {
            Value::Bytes(bytes) if private && !bytes.is_empty() => {
                let plain = plain(kind, bytes, key).ok_or_else(|| {
                    Error::damaged(path, format!("{name}: attribute 0x{kind:X} cannot be decrypted"))
                })?;
                Value::Bytes(plain)
            }
            value => value,
        };
        attributes.insert(kind, value);
    }
    Ok(Object { name, attributes })
}

/// Decrypts a value; `None` if the length or the padding is wrong.
fn plain(kind: CK_ATTRIBUTE_TYPE, bytes: Secret, key: &[u8]) -> Option<Secret> {
    // P11AttrStartDate::updateAttr and P11AttrEndDate::updateAttr do not encrypt.
    if matches!(kind, CKA_START_DATE | CKA_END_DATE) && bytes.len() == 8 {
        return Some(bytes);
    }
    // An empty value that was encrypted is a block of padding.
    decrypt_with_iv(key, &bytes)
}
