//! Reads the token stores of other PKCS#11 modules: SoftHSMv2 (both backends), NSS (`sql:`)
//! and Kryoptic.
//!
//! The readers take a path and a PIN. They return all objects, also the private ones, with all
//! attributes. They open every file read-only, never write, and call no module. Their input is not
//! trusted: a damaged or hostile store is an [`Error`], and every length has a limit.
//!
//! `formats.md` describes the formats.

#![forbid(unsafe_code)]

mod algorithm;
mod cipher;
mod error;
mod file;
mod kryoptic;
mod nss;
mod object;
mod softhsm;
mod sqlite;

use std::path::Path;

pub use error::Error;
pub use object::{Object, Secret, Value};

/// The format of a store: the program that wrote it, and the backend of SoftHSMv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SoftHSMv2, a file for each object.
    SoftHsmFiles,
    /// SoftHSMv2, an SQLite database for each token.
    SoftHsmDatabase,
    /// NSS, `key4.db` and `cert9.db`.
    Nss,
    /// Kryoptic, an SQLite database for each token.
    Kryoptic,
}

impl Format {
    /// Returns the name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SoftHsmFiles => "SoftHSMv2 (file backend)",
            Self::SoftHsmDatabase => "SoftHSMv2 (SQLite backend)",
            Self::Nss => "NSS",
            Self::Kryoptic => "Kryoptic",
        }
    }
}

/// A token that [`tokens`] found in an old store. [`Token::read`] reads its objects.
pub struct Token {
    /// The format of its store.
    pub format: Format,
    /// The label without its padding. For NSS, which stores no label, the name of the directory.
    pub label: String,
    /// The serial number; empty if the store has none.
    pub serial: String,
    source: Source,
}

enum Source {
    SoftHsm(softhsm::Token),
    Nss(nss::Database),
    Kryoptic(kryoptic::Token),
}

impl Token {
    /// Returns the directory with the token's files. For Kryoptic, whose tokens are single files,
    /// returns the path of the file.
    pub fn path(&self) -> &Path {
        match &self.source {
            Source::SoftHsm(token) => token.directory(),
            Source::Nss(database) => database.directory(),
            Source::Kryoptic(token) => token.path(),
        }
    }

    /// Reads all objects. Fails with [`Error::WrongPin`] if the PIN does not open the token.
    pub fn read(&self, pin: &[u8]) -> Result<Vec<Object>, Error> {
        match &self.source {
            Source::SoftHsm(token) => token.read(pin),
            Source::Nss(database) => database.read(pin),
            Source::Kryoptic(token) => token.read(pin),
        }
    }
}

/// Finds the tokens at a path: the token directory of SoftHSMv2, one token in it, the database
/// directory of NSS, or the database file of Kryoptic. `path` may have the prefix `sql:`. Fails
/// with [`Error::NoStore`] if there is no token.
pub fn tokens(path: &Path) -> Result<Vec<Token>, Error> {
    let text = path.as_os_str().to_string_lossy();
    let path = text.strip_prefix("sql:").map_or(path, Path::new);
    let tokens: Vec<_> = if path.is_file() {
        let of = |token: kryoptic::Token| {
            let (label, serial) = (token.label.clone(), token.serial.clone());
            Token { format: Format::Kryoptic, label, serial, source: Source::Kryoptic(token) }
        };
        kryoptic::Token::open(path)?.into_iter().map(of).collect()
    } else if path.join(nss::KEYS).is_file() {
        let database = nss::Database::at(path);
        let (label, serial) = (database.label(), String::new());
        vec![Token { format: Format::Nss, label, serial, source: Source::Nss(database) }]
    } else {
        let of = |token: softhsm::Token| {
            let (label, serial) = (token.label.clone(), token.serial.clone());
            Token { format: token.format(), label, serial, source: Source::SoftHsm(token) }
        };
        softhsm::tokens(path)?.into_iter().map(of).collect()
    };
    if tokens.is_empty() { Err(Error::NoStore(path.to_owned())) } else { Ok(tokens) }
}
