//! Administration of tokens that PKCS#11 has no functions for.
//!
//! The tool `jeton` calls this module. The module reads the same configuration as `C_Initialize`,
//! needs no session, and is independent of the C interface.

pub mod backup;
mod draft;
pub mod keys;
pub mod layout;
pub mod transfer;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jeton_secret::Secret;
use jeton_words::general::Threads;
use rustix::fs::OFlags;
use tracing::error;

use crate::audit::Record;
use crate::config::{self, Format, SealingSource, Settings};
use crate::error::{Error, Result};
use crate::file;
use crate::id::SlotId;
pub use crate::store::permissions::check_directory;
pub use crate::store::seal::algorithms::PinCost;
use crate::store::seal::sealing_key::{self, SealingKey};
use crate::store::seal::{self, pin_record};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::layout::check_serial;
pub use crate::store::sqlite::layout::{own_directory, path_of, remove_empty_directory};
use crate::store::{self, Header, PinState, ServerState, Store};
use crate::token::{Sealing, Token};

/// A token file, or a token of a database, that is open for administration.
pub struct TokenFile {
    path: PathBuf,
    token: Token,
}

/// The facts about a token that its file shows without a PIN.
pub struct Info {
    /// The serial number.
    pub serial: String,
    /// The label without its padding.
    pub label: String,
    /// The slot ID that the token asks for.
    pub slot: u64,
    /// The PIN of the security officer (SO).
    pub so: PinInfo,
    /// The user's PIN; `None` before `C_InitPIN`.
    pub user: Option<PinInfo>,
}

/// The facts about a PIN that the token's file shows.
pub struct PinInfo {
    /// The number of consecutive wrong PINs.
    pub failures: u32,
    /// The number of wrong PINs that locks this PIN.
    pub limit: u32,
    /// The KDF and its parameters; `None` if the record is damaged.
    pub cost: Option<PinCost>,
    /// The ID of the sealing key that the PIN needs; `None` if it needs no sealing key.
    pub sealing_key: Option<String>,
}

/// The PINs of a token.
pub struct Pins<'a> {
    /// The SO's PIN.
    pub so: &'a [u8],
    /// The user's PIN; `None` if it was never set.
    pub user: Option<&'a [u8]>,
}

/// A change of a token's sealing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealingChange {
    /// The PINs will need the key that the configuration names. Fails with `DeviceError` if it
    /// names none.
    Set,
    /// Like `Set`. Also fails with `DeviceError` if the PINs need no key now.
    Rotate,
    /// The PINs will need no key. Fails with `DeviceError` if they already need no key.
    Remove,
}

impl TokenFile {
    /// Opens all tokens of the configured directory or database. Also returns the files that cannot
    /// be read as tokens; the log has the reasons. `parameters` are library parameters as
    /// `C_Initialize` takes them.
    pub fn all(parameters: Option<&str>) -> Result<(Vec<Self>, Vec<PathBuf>)> {
        let settings = Arc::new(Settings::load(parameters, Threads::Forbidden)?);
        let (mut tokens, mut refused) = (Vec::new(), Vec::new());
        if let (Some(server), Some(rules)) = (store::server(&settings)?, &settings.database) {
            for Header { serial, slot, .. } in server.list()? {
                let store = Arc::clone(&server).open(&serial)?;
                let token = Token::open(SlotId(slot), Arc::clone(&settings), store)?;
                tokens.push(Self { path: Path::new(&rules.url).join(serial), token });
            }
            return Ok((tokens, refused));
        }
        for path in SqliteStore::files(&settings.token_dir)? {
            match Self::open(&settings, &path) {
                Ok(token) => tokens.push(token),
                Err(_) => refused.push(path),
            }
        }
        Ok((tokens, refused))
    }

    fn open(settings: &Arc<Settings>, path: &Path) -> Result<Self> {
        let store = SqliteStore::open(path)?;
        let header = store.header()?;
        check_serial(path, &header.serial)?;
        let slot = SlotId(header.slot);
        let token = Token::open(slot, Arc::clone(settings), Box::new(store))?;
        Ok(Self { path: path.to_owned(), token })
    }

    /// Returns the path of the token file. In a database, the serial number follows the address.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the facts that the file shows without a PIN.
    pub fn info(&self) -> Result<Info> {
        let header = self.token.stored_header()?;
        let limit = self.token.settings.pins.retries;
        let pin = |state: &PinState| PinInfo {
            failures: state.failures,
            limit,
            cost: pin_record::pin_cost(&state.record),
            sealing_key: pin_record::sealing_id(&state.record).map(sealing_key::text),
        };
        Ok(Info {
            label: label(&header),
            slot: header.slot,
            so: pin(&header.so),
            user: (!header.user.record.is_empty()).then(|| pin(&header.user)),
            serial: header.serial,
        })
    }

    /// Counts the objects, also those that are private.
    pub fn objects(&self) -> Result<u64> {
        self.token.stored_objects()
    }

    /// Looks for damage that can be seen without a PIN. Returns one sentence for each finding.
    pub fn damage(&self) -> Result<Vec<String>> {
        self.token.damage()
    }

    /// Resets the counts of wrong PINs of the SO and of the user to zero. It needs no PIN: anyone
    /// who may write to the file can change the numbers in it.
    pub fn reset_failures(&self) -> Result<()> {
        self.recorded("jeton pin reset --failures", Token::reset_failures)
    }

    /// Sets a new SO PIN with the user's PIN, which unwraps the same token key.
    pub fn reset_so_pin(&self, user_pin: &[u8], new: &[u8]) -> Result<()> {
        self.recorded("jeton pin reset", |token| token.reset_so_pin(user_pin, new))
    }

    /// Replaces the label, which has 32 bytes at most. Needs the SO PIN, as `C_InitToken` does. The
    /// objects stay.
    pub fn rename(&self, so_pin: &[u8], label: &str) -> Result<()> {
        let mut padded = [b' '; 32];
        padded.get_mut(..label.len()).ok_or(Error::ArgumentsBad)?.copy_from_slice(label.as_bytes());
        self.recorded("jeton token rename", |token| token.rename(so_pin, &padded))
    }

    /// Fails as [`rekey`](Self::rekey) does if a PIN is wrong. Counts wrong PINs.
    pub fn try_pins(&self, pins: &Pins<'_>) -> Result<()> {
        self.recorded("jeton rekey --format (PINs)", |token| {
            token.unwrap_all(pins.so, self.user_pin(pins)?, None).map(drop)
        })
    }

    /// Makes a new token key and encrypts all records again with it. The PINs stay. Every process
    /// that is logged in is logged out. If this process is killed, the token is as before or has
    /// the new key.
    pub fn rekey(&self, pins: &Pins<'_>) -> Result<()> {
        self.recorded("jeton rekey", |token| {
            token.rekey(pins.so, self.user_pin(pins)?, Sealing::Configured, None, None)
        })
    }

    /// Like [`rekey`](Self::rekey), with the algorithms of another format.
    pub fn convert(&self, pins: &Pins<'_>, format: Format) -> Result<()> {
        self.recorded("jeton rekey --format", |token| {
            token.rekey(pins.so, self.user_pin(pins)?, Sealing::Configured, None, Some(format))
        })
    }

    /// Changes the sealing key and makes a new token key, so that an older copy of the file reveals
    /// nothing of the new state. `old` is the location of the current sealing key if the
    /// configuration does not name it.
    pub fn change_sealing_key(
        &self,
        pins: &Pins<'_>,
        change: SealingChange,
        old: Option<&SealingSource>,
    ) -> Result<()> {
        let (function, sealing) = match change {
            SealingChange::Set => ("jeton sealing-key set", Sealing::Configured),
            SealingChange::Rotate => ("jeton sealing-key rotate", Sealing::Configured),
            SealingChange::Remove => ("jeton sealing-key remove", Sealing::Removed),
        };
        self.recorded(function, |token| {
            if change != SealingChange::Remove && token.settings.sealing_key.is_none() {
                error!("the configuration names no sealing key: set sealing-key in [store]");
                return Err(Error::DeviceError);
            }
            let sealed = pin_record::sealing_id(&token.stored_header()?.so.record).is_some();
            if change != SealingChange::Set && !sealed {
                error!("the PINs of this token need no sealing key");
                return Err(Error::DeviceError);
            }
            let old = old.map(SealingKey::read).transpose()?;
            token.rekey(pins.so, self.user_pin(pins)?, sealing, old.as_ref(), None)
        })
    }

    /// Returns the user's PIN if the token has one. Fails with `PinIncorrect` if the token has one
    /// and `pins` does not.
    fn user_pin<'a>(&self, pins: &Pins<'a>) -> Result<Option<&'a [u8]>> {
        let set = !self.token.stored_header()?.user.record.is_empty();
        match pins.user {
            None if set => Err(Error::PinIncorrect),
            given => Ok(given.filter(|_| set)),
        }
    }

    /// Runs `work` and writes its result to the audit log under this name.
    fn recorded<T>(&self, function: &'static str, work: impl FnOnce(&Token) -> Result<T>) -> Result<T> {
        let outcome = work(&self.token);
        note(&self.token.settings, self.token.serial(), function, &outcome);
        outcome
    }
}

/// Writes a result to the audit log, if there is one.
fn note<T>(settings: &Settings, serial: &str, function: &'static str, outcome: &Result<T>) {
    if let Some(audit) = &settings.audit {
        let result = outcome.as_ref().err().map_or("Ok".to_owned(), |error| format!("{error:?}"));
        audit.note(Record { token: Some(serial.to_owned()), function, result, ..Record::default() });
    }
}

/// Examines the database that has the tokens, and what this host may do there. Returns `None` if
/// the configuration names no database. Fails with `DeviceError` if the database cannot be used;
/// the log says why.
pub fn examine_database() -> Result<Option<ServerState>> {
    let settings = Settings::load(None, Threads::Forbidden)?;
    store::server(&settings)?.map(|server| server.examine()).transpose()
}

/// Removes a token with its objects from the database that has the tokens. Returns the token's
/// path, as [`TokenFile::path`] does; `None` if the configuration names no database.
pub fn remove_from_database(serial: &str) -> Result<Option<PathBuf>> {
    let settings = Settings::load(None, Threads::Forbidden)?;
    let (Some(server), Some(rules)) = (store::server(&settings)?, &settings.database) else {
        return Ok(None);
    };
    let outcome = server.remove(serial);
    note(&settings, serial, "jeton token delete", &outcome);
    outcome.map(|()| Some(Path::new(&rules.url).join(serial)))
}

/// Returns the label of a token without its padding.
fn label(header: &Header) -> String {
    String::from_utf8_lossy(&header.label).trim_end().to_owned()
}

/// Returns the configured directory of the tokens.
pub fn directory() -> Result<PathBuf> {
    Ok(Settings::load(None, Threads::Forbidden)?.token_dir)
}

/// Reads the configuration as `C_Initialize` does. Returns the names of the files that were read,
/// and the names and effective values of the main settings. Fails if the module would refuse the
/// configuration. The log says why.
pub fn configuration() -> Result<Vec<(&'static str, String)>> {
    let settings = Settings::load(None, Threads::Forbidden)?;
    let path =
        |path: &Option<PathBuf>| path.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
    let files: Vec<_> = config::files().iter().map(|file| file.display().to_string()).collect();
    let pins = &settings.pins;
    let sealing_key = settings.sealing_key.as_ref().map_or("none".to_owned(), ToString::to_string);
    Ok(vec![
        ("files", if files.is_empty() { "none".to_owned() } else { files.join(", ") }),
        ("token-dir", settings.token_dir.display().to_string()),
        ("backend", settings.provider.name.to_owned()),
        ("policy.name", settings.policy.name.name().to_owned()),
        ("mechanisms.offered", settings.mechanisms.len().to_string()),
        ("mechanisms.min-rsa-bits", settings.min_rsa_bits.to_string()),
        ("mechanisms.min-ec-bits", settings.min_ec_bits.to_string()),
        ("pin.min-length", pins.min_length.to_string()),
        ("pin.max-length", pins.max_length.to_string()),
        ("pin.retries", pins.retries.to_string()),
        ("pin.memory-kib", pins.memory_kib.to_string()),
        ("pin.passes", pins.passes.to_string()),
        ("pin.uncounted-delay", pins.uncounted_delay.to_string()),
        ("store.counter-dir", path(&settings.counter_dir)),
        ("store.sealing-key", sealing_key),
        ("store.url", settings.database.as_ref().map_or("none", |rules| &rules.url).to_owned()),
        ("audit", if settings.audit.is_some() { "on" } else { "off" }.to_owned()),
    ])
}

/// Creates a file with a new sealing key, which only its owner may read. Fails if the file exists.
pub fn new_sealing_key(path: &Path) -> std::io::Result<()> {
    let key =
        seal::random::<{ sealing_key::SHORTEST }>().map_err(|_| std::io::Error::other("no random bytes"))?;
    let key = Secret::new(key.to_vec());
    let mut file = file::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, 0o600)?;
    file.write_all(&key)?;
    file.sync_all()
}
