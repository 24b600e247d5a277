//! The module: all state of PKCS#11 in a process. The C interface calls the module, and through it
//! the sessions.
//!
//! A process builds the module once. It survives `C_Finalize`, and the next `C_Initialize` uses it
//! again. So a late call of another thread finds closed sessions, never freed memory. The methods
//! of the module are functions of PKCS#11, with a file for each chapter. The functions of an
//! operation are methods of [`Session`](crate::session::Session) and
//! [`Operation`](crate::session::Operation): see [`Module::with_session`].

use std::cmp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tracing::info;

use crate::config::Settings;
use crate::error::{Error, Result};
use crate::id::{SessionHandle, SlotId};
use crate::object::policy::Rights;
use crate::session::state::SavedStates;
use crate::session::table::SessionTable;
use crate::store;
use crate::store::sqlite::{Pool, SqliteStore};
use crate::token::ClientToken;

mod asynchronous;
mod audit;
mod derive;
mod digest;
mod kem;
mod key;
mod object;
mod operation;
mod password;
mod scan;
mod session;
mod slot;
mod state;
mod tokens;
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

use scan::{Look, scan};
use tokens::{ApplicationId, Home, Known};

/// The module as one application uses it. In the shared object there is one application. Several
/// applications of a process can share their tokens: see [`Module::join`].
pub struct Module {
    id: ApplicationId,
    sessions: SessionTable,
    state: RwLock<Option<Arc<Tokens>>>,
    states: SavedStates,
    jobs: asynchronous::Jobs,
    /// True if the application forbids the module to create threads.
    single: AtomicBool,
}

/// The tokens between `C_Initialize` and `C_Finalize`. Several applications of a process may use
/// them.
pub struct Tokens {
    settings: Arc<Settings>,
    /// The number of applications that use the tokens.
    applications: AtomicUsize,
    home: Home,
    /// This lock is never held while a file is read or written, or a server is asked.
    slots: Mutex<Vec<Slot>>,
    /// The right to change the list of slots. It is taken before the lock of the slots.
    look: Mutex<Look>,
    /// The tokens that had no session when they were used last. The first ones are removed from
    /// memory if there are more than [`Settings::open_tokens`].
    idle: Mutex<VecDeque<Arc<Known>>>,
}

/// A slot. The last slot has no token, so that an application can initialise one there.
#[derive(Clone)]
struct Slot {
    id: SlotId,
    token: Option<Arc<Known>>,
    /// True if the token appeared after `C_Initialize` and no call of `C_WaitForSlotEvent` has
    /// returned it.
    event: bool,
}

impl Default for Module {
    fn default() -> Self {
        Self::new()
    }
}

impl Module {
    /// Returns a module that is not initialised.
    pub fn new() -> Self {
        Self {
            id: ApplicationId::new(),
            sessions: SessionTable::default(),
            state: RwLock::default(),
            states: SavedStates::default(),
            jobs: asynchronous::Jobs::default(),
            single: AtomicBool::new(false),
        }
    }

    /// `C_Initialize`. `parameters` are library parameters as NSS passes them, in the form of
    /// [`config`](crate::config).
    pub fn initialize(&self, parameters: Option<&str>) -> Result<()> {
        self.start_with(|| Tokens::open(parameters, self.threads()).map(Arc::new))
    }

    /// Initialises the module for another application of this process, which shares the tokens of
    /// this one. It has its own sessions, logins and session objects. Fails with `NotInitialized`
    /// if this module is not initialised.
    pub fn join(&self) -> Result<Self> {
        let other = Self::new();
        other.set_threads(self.threads());
        other.start_with(|| self.state())?;
        Ok(other)
    }

    fn start_with(&self, tokens: impl FnOnce() -> Result<Arc<Tokens>>) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() {
            return Err(Error::AlreadyInitialized);
        }
        let tokens = tokens()?;
        tokens.applications.fetch_add(1, Ordering::AcqRel);
        self.jobs.open();
        *state = Some(tokens);
        Ok(())
    }

    /// `C_Finalize`. Closes every session and wipes the decrypted data.
    pub fn finalize(&self) -> Result<()> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner).take();
        let state = state.ok_or(Error::NotInitialized)?;
        self.close_all(None);
        self.states.clear();
        self.jobs.close();
        let known: Vec<_> = state.slots().iter().filter_map(|slot| slot.token.clone()).collect();
        known.iter().for_each(|known| known.forget_application(self.id));
        if state.applications.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(audit) = &state.settings.audit
        {
            audit.close();
        }
        Ok(())
    }

    /// Returns the state. Fails with `NotInitialized` if the module is not initialised.
    fn state(&self) -> Result<Arc<Tokens>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::NotInitialized)
    }

    /// Returns the token of a slot. Fails with `TokenNotRecognized` if the slot has no initialised
    /// token.
    fn token_in(&self, slot: SlotId) -> Result<Arc<ClientToken>> {
        let in_memory = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().and_then(|state| state.token_in_memory(slot, self.id))
        };
        if let Some(token) = in_memory {
            return Ok(token);
        }
        let state = self.state()?;
        state.known(slot)?.ok_or(Error::TokenNotRecognized)?.client(&state.home, self.id)
    }

    /// Returns the error of an invalid session handle, or `None` for a valid one.
    pub fn no_session(&self, session: SessionHandle) -> Option<Error> {
        self.access(session).err()
    }

    /// Returns the token and the rights of a session, for work that does not lock the session.
    fn access(&self, session: SessionHandle) -> Result<(Arc<ClientToken>, Rights)> {
        self.sessions.with(session, |session| Ok((Arc::clone(&session.token), session.rights())))
    }
}

impl Tokens {
    /// Reads the configuration and finds the tokens.
    fn open(parameters: Option<&str>, threads: Threads) -> Result<Self> {
        let settings = Arc::new(Settings::load(parameters, threads)?);
        info!(backend = settings.provider.name, dir = %settings.token_dir.display(), "initialised");
        let server = store::server(&settings)?;
        if server.is_none() {
            SqliteStore::check_directory(&settings.token_dir)?;
        }
        let (mut slots, mut look) = (Vec::new(), Look::default());
        let home = Home { settings: Arc::clone(&settings), pool: Pool::new(settings.open_tokens), server };
        scan(&home, &mut slots, &mut look)?;
        let in_memory = |slot: &&Slot| slot.token.as_ref().is_some_and(|known| known.in_memory().is_some());
        let opened: Vec<_> = slots.iter().filter(in_memory).map(|slot| slot.id).collect();
        // PKCS#11 3.2, C_WaitForSlotEvent: C_Initialize clears the flags of all events.
        slots.iter_mut().for_each(|slot| slot.event = false);
        let (slots, look) = (Mutex::new(slots), Mutex::new(look));
        let applications = AtomicUsize::new(0);
        let new = Self { settings, applications, home, slots, look, idle: Mutex::default() };
        opened.into_iter().for_each(|slot| new.note_idle(slot));
        Ok(new)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> MutexGuard<'_, Look> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives slots to the tokens that have none. The caller holds the lock `look`, so the list does
    /// not change meanwhile.
    fn scan(&self, look: &mut Look) -> Result<()> {
        if self.home.server.is_none() && look.is_current(&self.settings.token_dir) {
            return Ok(());
        }
        let mut slots = self.slots().clone();
        let outcome = scan(&self.home, &mut slots, look);
        *self.slots() = slots;
        outcome
    }

    /// Returns the token of a slot; `None` if the slot has no initialised token.
    fn known(&self, slot: SlotId) -> Result<Option<Arc<Known>>> {
        let slots = self.slots();
        match find(&slots, slot) {
            Ok(known) => Ok(Some(Arc::clone(known))),
            Err(before) if slots[before..].iter().any(|known| known.id == slot) => Ok(None),
            Err(_) => Err(Error::SlotIdInvalid),
        }
    }

    /// Returns the token of a slot if it is in memory and no file is being opened for it.
    fn token_in_memory(&self, slot: SlotId, application: ApplicationId) -> Option<Arc<ClientToken>> {
        find(&self.slots(), slot).ok()?.try_client_in_memory(application)
    }

    /// Adds a token that may have no session to the queue `idle`. If the queue is too long, takes
    /// the first tokens out of it and removes them from memory, unless they are in use.
    fn note_idle(&self, slot: SlotId) {
        let Ok(Some(known)) = self.known(slot) else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if known.enter_queue() {
            idle.push_back(known);
        }
        let going = idle.len().saturating_sub(self.settings.open_tokens);
        let going: Vec<_> = idle.drain(..going).collect();
        drop(idle);
        going.into_iter().for_each(|known| known.leave_queue());
    }
}

/// Returns the token of a slot, or the number of slots before it. The slots with a token come
/// first, in the order of their numbers.
fn find(slots: &[Slot], slot: SlotId) -> std::result::Result<&Arc<Known>, usize> {
    let order =
        |known: &Slot| if known.token.is_some() { known.id.cmp(&slot) } else { cmp::Ordering::Greater };
    let at = slots.binary_search_by(order)?;
    slots[at].token.as_ref().ok_or(at)
}
