//! The module, which `C_Initialize` builds. The C interface calls it, and through it the sessions.
//!
//! A process builds it once. It survives `C_Finalize` and the next `C_Initialize`. So a late call
//! of another thread finds closed sessions, never freed memory. Its methods are functions of
//! PKCS#11, with a file for each chapter. The functions of an operation are methods of
//! [`Session`](crate::session::Session) and
//! [`Operation`](crate::session::Operation): see [`Module::with_session`].

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tracing::{error, info};

use crate::config::Settings;
use crate::error::{Error, Result};
use crate::id::{SessionHandle, SlotId};
use crate::object::policy::Rights;
use crate::session::state::SavedStates;
use crate::session::table::SessionTable;
use crate::store::Store;
use crate::store::place::{FileId, Stamp};
use crate::store::sqlite::SqliteStore;
use crate::token::Token;

mod asynchronous;
mod audit;
mod derive;
mod digest;
mod kem;
mod key;
mod object;
mod operation;
mod password;
mod session;
mod slot;
mod state;
mod wrap;
mod wrap_aes;
mod wrap_authenticated;
mod wrap_ecdh;

pub use crate::audit::Threads;
pub use crate::object::policy::Access;
pub use crate::session::operation::Output;
pub use asynchronous::{AsyncFunction, Completed, Started};
pub use derive::{Additional, Connection, Derived};
pub use session::{SessionInfo, User};
pub use slot::{MechanismInfo, SlotInfo, TokenInfo, Wait};
pub use wrap_authenticated::Authenticated;

/// All state of the library in a process.
#[derive(Default)]
pub struct Module {
    sessions: SessionTable,
    state: RwLock<Option<Arc<State>>>,
    states: SavedStates,
    jobs: asynchronous::Jobs,
    /// True if the application forbids the module to create threads.
    single: AtomicBool,
}

/// The state between `C_Initialize` and `C_Finalize`.
struct State {
    settings: Arc<Settings>,
    slots: Mutex<Vec<Slot>>,
    /// A call that needs both locks takes the lock of the slots first.
    left_out: Mutex<LeftOut>,
}

/// The files that were left out because they are not tokens, or are copies of one. The stamp shows
/// whether a file has changed since then. The log names each file once.
type LeftOut = HashMap<FileId, Stamp>;

/// A slot. The last slot has no token, so that an application can initialise one there.
struct Slot {
    id: SlotId,
    token: Option<Arc<Token>>,
    /// The file of the token.
    file: Option<FileId>,
    /// True if the token appeared after `C_Initialize` and no call of `C_WaitForSlotEvent` has
    /// returned it.
    event: bool,
}

impl Module {
    /// Returns a module that is not initialised.
    pub fn new() -> Self {
        Self::default()
    }

    /// `C_Initialize`. `parameters` are library parameters as NSS passes them, in the form of
    /// [`config`](crate::config).
    pub fn initialize(&self, parameters: Option<&str>) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() {
            return Err(Error::AlreadyInitialized);
        }
        let settings = Arc::new(Settings::load(parameters, self.threads())?);
        info!(backend = settings.provider.name, dir = %settings.token_dir.display(), "initialised");
        SqliteStore::check_directory(&settings.token_dir)?;
        let (mut slots, mut left_out) = (Vec::new(), LeftOut::new());
        scan(&settings, &mut slots, &mut left_out)?;
        // PKCS#11 3.2, C_WaitForSlotEvent: C_Initialize clears the flags of all events.
        slots.iter_mut().for_each(|slot| slot.event = false);
        self.jobs.open();
        let (slots, left_out) = (Mutex::new(slots), Mutex::new(left_out));
        *state = Some(Arc::new(State { settings, slots, left_out }));
        Ok(())
    }

    /// `C_Finalize`. Closes every session and wipes the decrypted data.
    pub fn finalize(&self) -> Result<()> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner).take();
        let state = state.ok_or(Error::NotInitialized)?;
        self.close_where(|_| true);
        self.states.clear();
        self.jobs.close();
        if let Some(audit) = &state.settings.audit {
            audit.close();
        }
        Ok(())
    }

    /// Returns the state. Fails with `NotInitialized` if the module is not initialised.
    fn state(&self) -> Result<Arc<State>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::NotInitialized)
    }

    /// Returns the token of a slot. Fails with `TokenNotRecognized` if the slot has no initialised
    /// token.
    fn token_in(&self, slot: SlotId) -> Result<Arc<Token>> {
        let state = self.state()?;
        let slots = state.slots();
        let slot = slots.iter().find(|known| known.id == slot).ok_or(Error::SlotIdInvalid)?;
        slot.token.clone().ok_or(Error::TokenNotRecognized)
    }

    /// Returns the error of an invalid session handle, or `None` for a valid one.
    pub fn no_session(&self, session: SessionHandle) -> Option<Error> {
        self.access(session).err()
    }

    /// Returns the token and the rights of a session, for work that does not lock the session.
    fn access(&self, session: SessionHandle) -> Result<(Arc<Token>, Rights)> {
        self.sessions.with(session, |session| Ok((Arc::clone(&session.token), session.rights())))
    }
}

impl State {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left_out(&self) -> MutexGuard<'_, LeftOut> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the token files that have no slot yet. Makes sure that the last slot has no token.
fn scan(settings: &Arc<Settings>, slots: &mut Vec<Slot>, left_out: &mut LeftOut) -> Result<()> {
    let mut known: HashSet<_> = slots.iter().filter_map(|slot| slot.file).collect();
    let mut serials = None;
    let mut present = HashSet::new();
    for path in SqliteStore::files(&settings.token_dir)? {
        let Some(stamp) = SqliteStore::stamp(&path) else { continue };
        let file = stamp.file;
        present.insert(file);
        // A second name of a file is the same token.
        if known.contains(&file) || left_out.get(&file) == Some(&stamp) {
            continue;
        }
        let serials = serials.get_or_insert_with(|| serials_of(slots));
        match adopt(settings, slots, serials, &path) {
            Ok((token, file)) => {
                // Another process may have initialised the token in a slot that is empty here.
                slots.retain(|slot| slot.id != token.slot);
                serials.insert(token.serial().to_owned());
                known.insert(file);
                let (id, token) = (token.slot, Some(Arc::new(token)));
                slots.push(Slot { id, token, file: Some(file), event: true });
            }
            // A damaged file must not make the other tokens unavailable. The log names it, and it
            // is not opened again until it changes.
            Err(Error::TokenNotRecognized) => {
                left_out.extend(SqliteStore::stamp(&path).map(|stamp| (stamp.file, stamp)));
            }
            Err(reason) => error!(file = %path.display(), ?reason, "token left out"),
        }
    }
    left_out.retain(|file, _| present.contains(file));
    slots.sort_by_key(|slot| (slot.token.is_none(), slot.id));
    if slots.iter().all(|slot| slot.token.is_some()) {
        slots.push(Slot { id: next_free(slots), token: None, file: None, event: false });
    }
    Ok(())
}

fn serials_of(slots: &[Slot]) -> HashSet<String> {
    slots.iter().filter_map(|slot| Some(slot.token.as_ref()?.serial().to_owned())).collect()
}

/// Makes the store never read the `-shm` file itself if the configuration says so.
fn probed(store: SqliteStore, settings: &Settings) -> SqliteStore {
    if settings.shm_probe { store } else { store.without_probe() }
}

/// Opens a token file in the slot that the file names, or in the next free slot if another token
/// has that slot. Fails with `TokenNotRecognized` if a token with the same serial number is open,
/// because the file is a copy.
fn adopt(
    settings: &Arc<Settings>,
    slots: &[Slot],
    serials: &HashSet<String>,
    path: &Path,
) -> Result<(Token, FileId)> {
    let store = probed(SqliteStore::open(path)?, settings);
    let (file, header) = (store.file(), store.header()?);
    if serials.contains(&header.serial) {
        error!(
            file = %path.display(),
            serial = header.serial,
            "token left out: a token with this serial number is open already, and this file is a copy of it"
        );
        return Err(Error::TokenNotRecognized);
    }
    let wanted = SlotId(header.slot);
    let taken = slots.iter().any(|slot| slot.id == wanted && slot.token.is_some());
    let slot = if taken { next_free(slots) } else { wanted };
    Ok((Token::open(slot, Arc::clone(settings), Box::new(store))?, file))
}

fn next_free(slots: &[Slot]) -> SlotId {
    SlotId(slots.iter().map(|slot| slot.id.0 + 1).max().unwrap_or(0))
}
