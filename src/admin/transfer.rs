//! Moves a token between the token directory and the database, with its serial number, its PINs and
//! its state. Needs no PIN: both stores have the same sealed records, so nothing is decrypted, and
//! everyone who may read the one store and write the other could copy them.
//!
//! The two stores must never both have the token: each would count PINs and one-time passwords by
//! itself. So at one moment neither has it:
//!
//! 1. Lock the token, so that no process can write.
//! 2. Write the new copy completely, read it again and compare it. A copy in a file has the
//!    extension [`MOVING`]. A copy in the database is not committed yet. A move to the database
//!    makes a file with this extension, too.
//! 3. Remove the old copy.
//! 4. Make the new copy a token: commit it, or rename the file. After a move to the database,
//!    remove the file with this extension.
//!
//! If the process is killed, the next move finds the file with this extension, and finishes the
//! move or undoes it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{info, warn};

use super::backup::{Facts, Outcome, Problem, expect_free, facts, failure, settings};
use super::draft::Draft;
use super::{label, note};
use crate::config::Settings;
use crate::error::Error;
use crate::file;
use crate::store::change_counter::Counter;
use crate::store::server::TokenServer;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::detached::Detached;
use crate::store::sqlite::layout;
use crate::store::{self, Change, Header, Store, permissions};

/// The suffixes of the files that SQLite and Jeton make beside a token's file.
const BESIDE: &[&str] = &["-wal", "-shm", "-lock"];
/// The extension of a complete copy while its token moves.
pub const MOVING: &str = "moving";
/// The extension of a copy that is not complete.
const FRESH: &str = "new";
/// The name of the move in the audit log.
const FUNCTION: &str = "jeton token move";

/// The store that a token moves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The database that `[store] url` names.
    Database,
    /// The token directory.
    Directory,
}

/// A token that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The facts about the token.
    pub facts: Facts,
    /// The place where it was. In a database, the serial number follows the address. `None` if an
    /// earlier move was interrupted, and this one only finished or undid it: the complete copy does
    /// not show where the token was.
    pub from: Option<PathBuf>,
    /// The place where it is.
    pub to: PathBuf,
}

/// The two stores of a configuration.
struct Stores {
    settings: Arc<Settings>,
    server: Arc<dyn TokenServer>,
    url: PathBuf,
    /// The open directory. It is locked, so that no other process finishes a move that is running.
    _directory: File,
}

/// Moves the only token of the other store that has this serial number and this label. First
/// finishes or undoes the moves that were interrupted.
pub fn move_token(serial: Option<&str>, label: Option<&str>, to: Destination) -> Outcome<Moved> {
    let stores = Stores::open()?;
    let fits = |found: &Facts| {
        serial.is_none_or(|serial| found.serial == serial) && label.is_none_or(|label| found.label == label)
    };
    let finished = stores.finish_all()?;
    if let Some((facts, _)) = finished.into_iter().find(|(facts, now)| *now == to && fits(facts)) {
        let to = match to {
            Destination::Database => stores.url.join(&facts.serial),
            Destination::Directory => stores.file(&facts.serial),
        };
        return Ok(Moved { facts, from: None, to });
    }
    let moved = match to {
        Destination::Database => stores.to_database(&fits),
        Destination::Directory => stores.to_directory(&fits),
    }?;
    let serial = &moved.facts.serial;
    note(&stores.settings, serial, FUNCTION, &Ok(()));
    info!(token = serial, to = %moved.to.display(), "a token was moved");
    Ok(moved)
}

impl Stores {
    fn open() -> Outcome<Self> {
        let settings = settings()?;
        let (Some(server), Some(rules)) = (store::server(&settings)?, &settings.database) else {
            return Err(Problem::new("the configuration must name the database: [store] url".to_owned()));
        };
        let (url, path) = (PathBuf::from(&rules.url), &settings.token_dir);
        SqliteStore::check_directory(path)?;
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failure(path))?;
        let directory = file::open_directory(path).map_err(failure(path))?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { settings, server, url, _directory: directory }),
            Err(TryLockError::WouldBlock) => Err(Problem::new("another process moves a token".to_owned())),
            Err(TryLockError::Error(reason)) => Err(failure(path)(reason)),
        }
    }

    /// Returns the path of the file that a token has after a move to the directory.
    fn file(&self, serial: &str) -> PathBuf {
        layout::path_of(&self.settings.token_dir, serial)
    }

    fn to_database(&self, fits: &dyn Fn(&Facts) -> bool) -> Outcome<Moved> {
        let mut found = Vec::new();
        for path in SqliteStore::files(&self.settings.token_dir)? {
            // The log names a file that cannot be opened.
            let Ok(store) = SqliteStore::open(&path) else { continue };
            let header = store.header()?;
            if fits(&summary_of(&header)) {
                found.push((path, store, header));
            }
        }
        let (path, file, header) = only(found, "the token directory")?;
        let serial = serial_of(header)?;
        if self.server.list()?.iter().any(|header| header.serial == serial) {
            return Err(Problem::new(format!(
                "the database has a token with the serial number {serial}, too"
            )));
        }
        if file.is_outdated()? {
            return Err(Problem::new("the file has an older format: log in to the token once".to_owned()));
        }
        let moving = path.with_extension(MOVING);
        let mut why = None;
        let outcome = file.retire(|| {
            let fresh = path.with_extension(FRESH);
            let draft = Draft::create(fresh.clone()).map_err(failure(&fresh))?;
            file.copy(draft.path())?;
            let facts = self.check(&Detached::open(draft.path())?)?;
            let set = draft.set_mode(permissions::mode_beside(&path));
            set.and_then(|()| draft.publish(&moving)).map_err(failure(&moving))?;
            let copy = Detached::open(&moving)?;
            let received = self.server.receive(&copy, &mut || {
                // The token's file is removed first: the others mean nothing without it.
                let removed = fs::remove_file(&path).and_then(|()| {
                    file::remove_beside(&path, BESIDE);
                    file::sync_directory_of(&path)
                });
                removed.map_err(|reason| {
                    why = Some(failure(&path)(reason));
                    Error::DeviceError
                })
            });
            received.map(|()| facts).map_err(|error| why.take().unwrap_or_else(|| error.into()))
        });
        drop(file);
        match outcome {
            Ok(facts) => {
                remove_last_file(&moving).map_err(failure(&moving))?;
                self.count(&facts)?;
                Ok(Moved { to: self.url.join(&facts.serial), facts, from: Some(path) })
            }
            Err(reason) => Err(self.undo(&moving, reason)),
        }
    }

    fn to_directory(&self, fits: &dyn Fn(&Facts) -> bool) -> Outcome<Moved> {
        let headers = self.server.list()?.into_iter().map(|header| (summary_of(&header), header));
        let found: Vec<_> = headers.filter(|(facts, _)| fits(facts)).map(|(_, header)| header).collect();
        let serial = serial_of(only(found, "the database")?)?;
        let path = self.file(&serial);
        let (moving, fresh) = (path.with_extension(MOVING), path.with_extension(FRESH));
        let directory = &self.settings.token_dir;
        let draft = Draft::create(fresh.clone()).map_err(failure(&fresh))?;
        expect_free(directory, &path, &serial, "")?;
        let (mut draft, mut done) = (Some(draft), Err(Problem::new("the database gave no token".to_owned())));
        let released = self.server.release(&serial, &fresh, &mut || {
            done = self.check_and_publish(draft.take(), &moving);
            done.as_ref().map(drop).map_err(|_| Error::DeviceError)
        });
        let outcome = match released {
            Ok(()) => done.and_then(|facts| name_token(&moving, &path).map(|()| facts)),
            Err(error) => Err(done.err().filter(|_| draft.is_none()).unwrap_or_else(|| error.into())),
        };
        drop(draft);
        match outcome {
            Ok(facts) => {
                self.count(&facts)?;
                let from = Some(self.url.join(&serial));
                Ok(Moved { facts, from, to: path })
            }
            Err(reason) => Err(self.undo(&moving, reason)),
        }
    }

    /// Checks a new file, and gives it the name of a complete copy.
    fn check_and_publish(&self, draft: Option<Draft>, moving: &Path) -> Outcome<Facts> {
        let draft = draft.ok_or_else(|| Problem::new("the file was written twice".to_owned()))?;
        let facts = self.check(&Detached::open(draft.path())?)?;
        let mode = permissions::mode_in(&self.settings.token_dir);
        let set = mode.and_then(|mode| draft.set_mode(mode));
        set.and_then(|()| draft.publish(moving)).map_err(failure(moving))?;
        Ok(facts)
    }

    /// Returns the facts about a copy, if nothing is damaged and the counter knows no later state.
    fn check(&self, copy: &Detached) -> Outcome<Facts> {
        let facts = facts(copy, &copy.header()?, None)?;
        match self.counter(&facts.serial).map(|counter| counter.read()).transpose()? {
            Some(noted) if noted > Change(facts.state) => Err(Problem::new(
                "the counter of this host knows a later state of the token: it was rolled back".to_owned(),
            )),
            _ => Ok(facts),
        }
    }

    fn counter(&self, serial: &str) -> Option<Counter> {
        self.settings.counter_dir.as_ref().map(|folder| Counter::of(folder, serial))
    }

    /// Notes in the counter the state of a token that was moved.
    fn count(&self, facts: &Facts) -> Outcome<()> {
        let counter = self.counter(&facts.serial);
        Ok(counter.map_or(Ok(()), |counter| counter.note(Change(facts.state)))?)
    }

    /// Finishes or undoes a move that failed for this reason. Returns the reason. If the move had
    /// made a complete copy, the text also says where the token is now.
    fn undo(&self, moving: &Path, reason: Problem) -> Problem {
        match self.finish(moving).map(|finished| finished.map(|(_, now)| now)) {
            Ok(None) => reason,
            Ok(Some(Destination::Directory)) => {
                Problem::new(format!("{reason}; the token is in the token directory"))
            }
            Ok(Some(Destination::Database)) => {
                Problem::new(format!("{reason}; the token is in the database"))
            }
            Err(other) => Problem::new(format!(
                "{reason}; the token is complete in {}, and cannot be used now ({other}): run this command again",
                moving.display()
            )),
        }
    }

    /// Finishes or undoes all moves that were interrupted. Returns the tokens, and where they are
    /// now.
    fn finish_all(&self) -> Outcome<Vec<(Facts, Destination)>> {
        let mut finished = Vec::new();
        let directory = &self.settings.token_dir;
        for moving in layout::files_with(directory, MOVING).map_err(failure(directory))? {
            if let Some((facts, now)) = self.finish(&moving)? {
                warn!(token = facts.serial, ?now, "an earlier move of this token was interrupted");
                finished.push((facts, now));
            }
        }
        Ok(finished)
    }

    /// Finishes or undoes the move that made this complete copy, if it was interrupted. Returns the
    /// token, and where it is now; `None` if there is no copy.
    fn finish(&self, moving: &Path) -> Outcome<Option<(Facts, Destination)>> {
        if moving.symlink_metadata().is_err() {
            return Ok(None);
        }
        let copy = Detached::open(moving)?;
        let facts = facts(&copy, &copy.header()?, None)?;
        drop(copy);
        let path = moving.with_extension(layout::EXTENSION);
        // Waits until no move runs on the server: it may still commit the move of a killed process.
        let is_committed = self.server.has(&facts.serial)?;
        if path.symlink_metadata().is_ok() {
            // The old copy of a move to the database was not removed.
            remove_file(moving).map_err(failure(moving))?;
            return Ok(Some((facts, Destination::Directory)));
        }
        if is_committed {
            remove_last_file(moving).map_err(failure(moving))?;
            return Ok(Some((facts, Destination::Database)));
        }
        name_token(moving, &path)?;
        Ok(Some((facts, Destination::Directory)))
    }
}

/// Returns what a header shows of a token.
fn summary_of(header: &Header) -> Facts {
    Facts {
        serial: header.serial.clone(),
        label: label(header),
        objects: 0,
        state: header.change.0,
        has_user_pin: !header.user.record.is_empty(),
        sealing_key: None,
        outside_cnsa2: Vec::new(),
    }
}

fn only<T>(mut found: Vec<T>, place: &str) -> Outcome<T> {
    match (found.pop(), found.len()) {
        (Some(token), 0) => Ok(token),
        (None, _) => Err(Problem::new(format!("no such token in {place}"))),
        _ => Err(Problem::new(format!("several tokens of {place} fit; choose one with --serial"))),
    }
}

/// Returns the serial number of a token, which names its files.
fn serial_of(header: Header) -> Outcome<String> {
    match header.serial {
        serial if store::is_serial(serial.as_bytes()) => Ok(serial),
        serial => Err(Problem::new(format!("{serial:?} is not the serial number of a token"))),
    }
}

/// Makes a complete copy a token.
fn name_token(moving: &Path, path: &Path) -> Outcome<()> {
    // SQLite would apply the log of the file that had this name before.
    file::remove_beside(path, BESIDE);
    Detached::open(moving)?.close()?;
    let named = fs::rename(moving, path).and_then(|()| layout::sync_directories(path));
    named.map_err(failure(path))
}

/// Removes the last file of a token that is in the database now.
fn remove_last_file(path: &Path) -> std::io::Result<()> {
    remove_file(path)?;
    layout::remove_empty_directory(path);
    Ok(())
}

fn remove_file(path: &Path) -> std::io::Result<()> {
    fs::remove_file(path)?;
    file::sync_directory_of(path)
}
