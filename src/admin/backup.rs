//! Backups of tokens: a copy of one state of the store, and a new token from such a copy.
//!
//! The tool `jeton` encrypts the copies; a copy itself has the protection of the token's file.
//!
//! A restored token must not be mistaken for the original token, from which the copy was made.
//! [`Restore::NewState`] keeps the serial number and gives the restored token a later state, which
//! the counter and other processes recognise. If the original stays in use, the restored token
//! needs a new serial number ([`Restore::NewSerial`]).

use std::fmt;
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jeton_words::general::Threads;
use tracing::info;

use super::draft::Draft;
use super::{Pins, TokenFile, label, note};
use crate::config::Settings;
use crate::error::Error;
use crate::store::change_counter::Counter;
use crate::store::seal::sealing_key::{self, SealingKey};
use crate::store::seal::{TokenKey, pin_record};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::detached::Detached;
use crate::store::sqlite::layout;
use crate::store::{Change, Header, Role, Store, is_serial};
use crate::token::{NewPins, Rekey, Serials, new_serial};

/// The extension of a copy in the token's directory. A process that is killed leaves the copy
/// there.
const COPY: &str = "backup";
/// The extension of a token's file until its restore is complete. `C_InitToken` uses the same
/// extension for a file that is not complete.
const FRESH: &str = "new";

/// The reason why a copy, a check, a restore or a move failed. Its text is for the user.
#[derive(Debug)]
pub struct Problem {
    text: String,
    /// What has to change before it can succeed.
    pub fault: Fault,
}

/// What has to change before work on a token can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None of the others.
    Other,
    /// The PIN is wrong.
    WrongPin,
    /// There is such a token already.
    Exists,
    /// The file is damaged or was altered.
    Damaged,
    /// The operating system does not permit it.
    NotPermitted,
    /// The store does not work, or the disk is full.
    Device,
}

impl Problem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), fault: Fault::Other }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (fault, text) = match error {
            Error::PinIncorrect => (Fault::WrongPin, "the PIN is wrong".to_owned()),
            Error::DeviceMemory => (Fault::Device, "the disk is full".to_owned()),
            Error::TokenNotRecognized => {
                (Fault::Damaged, "the file is not a token that this version knows".to_owned())
            }
            Error::TokenWriteProtected => (Fault::NotPermitted, "the log says why".to_owned()),
            other => (Fault::Device, format!("{other:?}; the log says why")),
        };
        Self { text, fault }
    }
}

/// The result of a copy, a check or a restore.
pub type Outcome<T> = Result<T, Problem>;

/// The facts about a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The serial number.
    pub serial: String,
    /// The label without its padding.
    pub label: String,
    /// The number of objects.
    pub objects: u64,
    /// The change number of the token.
    pub state: i64,
    /// Whether the user has a PIN.
    pub has_user_pin: bool,
    /// The ID of the sealing key that the PINs need; `None` if they need none.
    pub sealing_key: Option<String>,
    /// The labels and types of the keys that CNSA 2.0 lacks; empty without a PIN.
    pub outside_cnsa2: Vec<String>,
}

/// A PIN and its owner.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The owner.
    pub role: Role,
    /// The PIN.
    pub pin: &'a [u8],
}

/// The serial number and the state that a restored token gets.
#[derive(Clone, Copy)]
pub enum Restore<'a> {
    /// Both stay the same. Needs no PIN. Fails if the counter knows a later state.
    AsItIs,
    /// The serial number stays the same. The change number starts a new incarnation, after those of
    /// the copy and of the counter. Needs one PIN.
    NewState(Login<'a>),
    /// The token gets a new serial number and a new token key. Needs every PIN.
    NewSerial(&'a Pins<'a>),
}

/// A copy of a token's store in a file. Dropping the copy removes the file.
pub struct Copy(Draft);

impl TokenFile {
    /// Copies one state of the store to a file beside the token's file. Other processes may write
    /// meanwhile.
    pub fn copy(&self) -> Outcome<Copy> {
        if self.token.settings.database.is_some() {
            let reason = "a token in a database is backed up with the tools of PostgreSQL";
            return Err(Problem::new(reason.to_owned()));
        }
        let path = self.path.with_extension(COPY);
        let draft = Draft::create(path.clone()).map_err(failure(&path))?;
        self.recorded("jeton backup create", |token| token.copy_store(draft.path()))?;
        Ok(Copy(draft))
    }
}

impl Copy {
    /// Writes a store that a backup contains into a new file below this token directory.
    pub fn receive(directory: &Path, serial: &str, input: &mut dyn Read) -> Outcome<Self> {
        if !is_serial(serial.as_bytes()) {
            return Err(Problem::new(format!("{serial:?} is not the serial number of a token")));
        }
        let path = layout::path_of(directory, serial).with_extension(FRESH);
        let draft = Draft::create(path.clone()).map_err(failure(&path))?;
        std::io::copy(input, &mut draft.file()).map_err(failure(&path))?;
        Ok(Self(draft))
    }

    /// Returns the file, positioned at its start.
    pub fn file(&self) -> Outcome<&File> {
        self.0.file().rewind().map_err(failure(self.0.path()))?;
        Ok(self.0.file())
    }

    /// Checks every record. With a PIN, opens each of them.
    pub fn check(&self, login: Option<Login<'_>>) -> Outcome<Facts> {
        let settings = settings()?;
        let store = Detached::open(self.0.path())?;
        let header = store.header()?;
        let key = login.map(|login| unwrap(&header, login, &settings)).transpose()?;
        facts(&store, &header, key.as_ref())
    }

    /// Makes a token of the copy in the configured directory. Returns its facts and the path of its
    /// file.
    pub fn restore(self, how: Restore<'_>) -> Outcome<(Facts, PathBuf)> {
        let settings = settings()?;
        SqliteStore::check_directory(&settings.token_dir)?;
        let mut store = Detached::open(self.0.path())?;
        let header = store.header()?;
        let counter = settings.counter_dir.as_ref().map(|folder| Counter::of(folder, &header.serial));
        let noted = counter.as_ref().map(Counter::read).transpose()?;
        let facts = match how {
            Restore::AsItIs => {
                if noted.is_some_and(|noted| noted > header.change) {
                    return Err(Problem::new(
                        "the counter knows a later state of this token; restore it with a PIN, so that it gets a new state"
                            .to_owned(),
                    ));
                }
                facts(&store, &header, None)?
            }
            Restore::NewState(login) => {
                let key = unwrap(&header, login, &settings)?;
                let facts = facts(&store, &header, Some(&key))?;
                let change = header.change.max(noted.unwrap_or(header.change)).next_incarnation();
                let mut summary = key
                    .open_summary(&header.serial, header.change, &store.summary()?)
                    .ok_or(Error::DeviceError)?;
                summary.change = change.0;
                store.set_change(change, &key.seal_summary(&header.serial, &summary)?)?;
                Facts { state: change.0, ..facts }
            }
            Restore::NewSerial(pins) => renew(&mut store, &header, pins, &settings)?,
        };
        let path = layout::path_of(&settings.token_dir, &facts.serial);
        expect_free(&settings.token_dir, &path, &facts.serial, ", or restore with a new serial number")?;
        store.close()?;
        self.0.publish(&path).map_err(failure(&path))?;
        if let Some(counter) = counter.filter(|_| facts.serial == header.serial) {
            counter.note(Change(facts.state))?;
        }
        SqliteStore::open(&path)?.header()?;
        note(&settings, &facts.serial, "jeton backup restore", &Ok(()));
        info!(token = facts.serial, file = %path.display(), "a token was restored");
        Ok((facts, path))
    }
}

pub(super) fn settings() -> Outcome<Arc<Settings>> {
    Ok(Arc::new(Settings::load(None, Threads::Forbidden)?))
}

/// Returns the facts, if nothing is damaged.
pub(super) fn facts(store: &Detached, header: &Header, key: Option<&TokenKey>) -> Outcome<Facts> {
    if !is_serial(header.serial.as_bytes()) {
        return Err(Problem::new(format!("{:?} is not the serial number of a token", header.serial)));
    }
    let found = store.inspect(key)?;
    if !found.damage.is_empty() {
        let text = format!("the token is damaged: {}", found.damage.join("; "));
        return Err(Problem { text, fault: Fault::Damaged });
    }
    Ok(Facts {
        serial: header.serial.clone(),
        label: label(header),
        objects: found.objects,
        state: header.change.0,
        has_user_pin: !header.user.record.is_empty(),
        sealing_key: pin_record::sealing_id(&header.so.record).map(sealing_key::text),
        outside_cnsa2: found.outside_cnsa2,
    })
}

/// Unwraps the token key of a copy. Counts no failure: the counts of a copy protect nothing.
fn unwrap(header: &Header, login: Login<'_>, settings: &Settings) -> Outcome<TokenKey> {
    let record = &header.pin(login.role).record;
    if record.is_empty() {
        return Err(Problem::new("the user's PIN was never set".to_owned()));
    }
    let sealing = match pin_record::sealing_id(record) {
        None => None,
        Some(needed) => {
            let key = settings.sealing_key.as_ref().map(SealingKey::read).transpose()?;
            let key = key.filter(|key| key.id() == needed);
            Some(key.ok_or_else(|| {
                Problem::new(format!(
                    "no PIN opens this token without the sealing key {}; [store] sealing-key must name it",
                    sealing_key::text(needed)
                ))
            })?)
        }
    };
    Ok(TokenKey::prepare(login.role, record, sealing)?.open(&header.serial, login.pin)?)
}

/// Encrypts all records with a new token key for a new serial number.
fn renew(store: &mut Detached, header: &Header, pins: &Pins<'_>, settings: &Settings) -> Outcome<Facts> {
    let old = unwrap(header, Login { role: Role::SecurityOfficer, pin: pins.so }, settings)?;
    let facts = facts(store, header, Some(&old))?;
    let (key, serial) = (TokenKey::generate(old.format())?, new_serial()?);
    let sealing = settings.sealing_key.as_ref().map(SealingKey::read).transpose()?;
    let wrap = |role, pin| key.wrap(&serial, role, pin, &settings.pins, sealing.as_ref(), None);
    let so = (header.so.record.clone(), wrap(Role::SecurityOfficer, pins.so)?);
    let user = match pins.user {
        Some(pin) if facts.has_user_pin => {
            let user = unwrap(header, Login { role: Role::User, pin }, settings)?;
            old.expect_same(&header.serial, &user)?;
            (header.user.record.clone(), wrap(Role::User, pin)?)
        }
        None if facts.has_user_pin => return Err(Problem::new("the user's PIN is missing".to_owned())),
        _ => Default::default(),
    };
    let rekey = Rekey {
        serials: Serials { old: &header.serial, new: &serial },
        old: &old,
        incarnation: header.change.incarnation(),
        new: &key,
        pins: NewPins { so, user },
    };
    store.rewrite(&mut |transaction| rekey.run(transaction).map(Some), &serial)?;
    let header = store.header()?;
    self::facts(store, &header, Some(&key))
}

/// Fails if the directory has a token with this serial number, or a file that SQLite would take for
/// a part of the new token's file. `hint` ends the message.
pub(super) fn expect_free(directory: &Path, path: &Path, serial: &str, hint: &str) -> Outcome<()> {
    let beside =
        ["jeton", "jeton-wal", "jeton-shm", "jeton-journal"].map(|ending| path.with_extension(ending));
    // A flat token, also if it is damaged.
    let flat = directory.join(serial).with_extension(layout::EXTENSION);
    for name in beside.into_iter().chain([flat]) {
        if name.symlink_metadata().is_ok() {
            return Err(taken(&name, serial, hint));
        }
    }
    for file in SqliteStore::files(directory)? {
        let header = SqliteStore::open(&file).and_then(|store| store.header());
        if header.is_ok_and(|header| header.serial == serial) {
            return Err(taken(&file, serial, hint));
        }
    }
    Ok(())
}

fn taken(file: &Path, serial: &str, hint: &str) -> Problem {
    let file = file.display();
    let text = format!("{file} is or was a token with the serial number {serial}: move it away first{hint}");
    Problem { text, fault: Fault::Exists }
}

pub(super) fn failure(path: &Path) -> impl FnOnce(IoError) -> Problem {
    let path = path.to_owned();
    move |reason| {
        let fault = match reason.kind() {
            ErrorKind::StorageFull => Fault::Device,
            ErrorKind::AlreadyExists => Fault::Exists,
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => Fault::Damaged,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Fault::NotPermitted,
            _ => Fault::Other,
        };
        let reason = match reason.kind() {
            ErrorKind::StorageFull => "the disk is full".to_owned(),
            _ => reason.to_string(),
        };
        Problem { text: format!("{}: {reason}", path.display()), fault }
    }
}
