//! The module: all state of PKCS#11 in a process. The C interface calls the module, and through it
//! the sessions.
//!
//! A process builds the module once. It survives `C_Finalize`, and the next `C_Initialize` uses it
//! again. So a late call of another thread finds closed sessions, never freed memory. The methods
//! of the module are functions of PKCS#11, with a file for each chapter. The functions of an
//! operation are in the file `token.rs`; they call a [`Session`](crate::session::Session).

use std::cmp;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tracing::info;

use crate::backend;
use crate::config::{Settings, log};
use crate::error::{Error, Result, require};
use crate::id::{SessionHandle, SlotId};
use crate::object::access::Rights;
use crate::session::pending::Pending;
use crate::session::state::SavedStates;
use crate::session::table::SessionTable;
use crate::store::{self, source::TokenSource};
use crate::sync::lock;
use crate::token::{ClientToken, Identity};

mod asynchronous;
mod audit;
mod cost;
mod derive;
mod digest;
mod kem;
mod key;
mod object;
mod operation;
mod password;
mod session;
mod share;
mod slot;
mod slot_numbers;
mod state;
mod token;
mod tokens;
mod wrap;
mod wrap_aes;
mod wrap_authenticated;
mod wrap_ecdh;

pub use crate::store::seal::pin_record::PinMark;
pub use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
pub use jeton_words::derive::{Additional, Connection, Derived};
pub use jeton_words::general::Threads;
pub use jeton_words::operation::Output;
pub use jeton_words::session::{Access, SessionInfo, User};
pub use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo, Wait};
pub use share::{NewShare, ShareUse};

use tokens::{Application, SlotToken};

/// The module as one application uses it. In the shared object there is one application. Several
/// applications of a process can share their tokens: see [`Module::join`].
pub struct Module {
    application: Application,
    sessions: SessionTable,
    state: RwLock<Option<Arc<Tokens>>>,
    states: SavedStates,
    jobs: asynchronous::Jobs,
    /// `None` if the buffers of the application do not outlive a call.
    pending: Option<Arc<Pending>>,
    /// The slots whose token `C_WaitForSlotEvent` has returned, or that had a token at
    /// `C_Initialize`.
    announced: Mutex<HashSet<SlotId>>,
    /// True if the application forbids the module to create threads.
    single: AtomicBool,
}

/// The tokens between `C_Initialize` and `C_Finalize`. Several applications of a process may use
/// them.
struct Tokens {
    settings: Arc<Settings>,
    /// The number of applications that use the tokens.
    applications: AtomicUsize,
    source: Arc<dyn TokenSource>,
    /// This lock is never held while a file is read or written, or a server is asked.
    slots: Mutex<Vec<Slot>>,
    /// See [`ListGuard`].
    listing: Mutex<()>,
    /// The tokens that had no session when they were used last. The first ones are removed from
    /// memory if there are more than [`Settings::open_tokens`].
    idle: Mutex<VecDeque<Arc<SlotToken>>>,
}

/// The right to change the list of slots, also while the source is asked for its tokens. It is
/// taken before the lock of the slots.
struct ListGuard<'a> {
    _lock: MutexGuard<'a, ()>,
}

/// A slot. The last slot has no token, so that an application can initialise one there.
#[derive(Clone)]
struct Slot {
    id: SlotId,
    token: Option<Arc<SlotToken>>,
}

impl Default for Module {
    fn default() -> Self {
        Self::new()
    }
}

impl Module {
    /// Returns a module that is not initialised.
    pub fn new() -> Self {
        let mut module = Self::of(None);
        module.pending = Some(Arc::default());
        module
    }

    fn of(identity: Option<Identity>) -> Self {
        Self {
            application: Application::new(identity),
            sessions: SessionTable::default(),
            state: RwLock::default(),
            states: SavedStates::default(),
            jobs: asynchronous::Jobs::default(),
            pending: None,
            announced: Mutex::default(),
            single: AtomicBool::new(false),
        }
    }

    /// `C_Initialize`. `parameters` are library parameters as NSS passes them, in the form of
    /// [`config`](crate::config).
    pub fn initialize(&self, parameters: Option<&str>) -> Result<()> {
        self.start_with(|| Tokens::open(Settings::load(parameters, self.threads())?).map(Arc::new))
    }

    /// Like [`initialize`](Self::initialize), with a configuration that the caller has read.
    pub fn initialize_with(&self, settings: Settings) -> Result<()> {
        self.start_with(|| Tokens::open(settings).map(Arc::new))
    }

    /// Returns the module of another application of this process, which shares the tokens. It is
    /// initialised, and has its own sessions, logins and session objects. Its signatures are never
    /// pending. Fails with `NotInitialized` if this module is not initialised.
    pub fn join(&self) -> Result<Self> {
        self.join_for(None)
    }

    /// Like [`join`](Self::join), for an application with this identity.
    pub fn join_for(&self, identity: Option<Identity>) -> Result<Self> {
        let other = Self::of(identity);
        other.set_threads(self.threads());
        other.start_with(|| self.state())?;
        Ok(other)
    }

    fn start_with(&self, tokens: impl FnOnce() -> Result<Arc<Tokens>>) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        require(state.is_none(), Error::AlreadyInitialized)?;
        let tokens = tokens()?;
        tokens.applications.fetch_add(1, Ordering::AcqRel);
        // PKCS#11 3.2, C_WaitForSlotEvent: C_Initialize clears the flags of all events.
        let present =
            lock(&tokens.slots).iter().filter(|slot| slot.token.is_some()).map(|slot| slot.id).collect();
        *lock(&self.announced) = present;
        self.jobs.open();
        *state = Some(tokens);
        Ok(())
    }

    /// `C_Finalize`. Closes every session and wipes the decrypted data. The last application of a
    /// process also waits until the audit log has all records, and closes the tokens, so that the
    /// file of a token has all objects. For this, no call may be active in any application.
    pub fn finalize(&self) -> Result<()> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner).take();
        let tokens = state.ok_or(Error::NotInitialized)?;
        self.close_all(None);
        self.states.clear();
        self.jobs.close();
        let known: Vec<_> = lock(&tokens.slots).iter().filter_map(|slot| slot.token.clone()).collect();
        known.iter().for_each(|known| known.forget_application(&self.application));
        if tokens.applications.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Some(audit) = &tokens.settings.audit {
                audit.close();
            }
            log::report_dropped();
        }
        Ok(())
    }

    /// Returns the tokens. Fails with `NotInitialized` if the module is not initialised.
    fn state(&self) -> Result<Arc<Tokens>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::NotInitialized)
    }

    /// Returns the token of a slot. Fails with `TokenNotRecognized` if the slot has no initialised
    /// token.
    fn token_in(&self, slot: SlotId) -> Result<Arc<ClientToken>> {
        let in_memory = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().and_then(|tokens| tokens.client_in_memory(slot, &self.application))
        };
        if let Some(token) = in_memory {
            return Ok(token);
        }
        let tokens = self.state()?;
        tokens.known(slot)?.ok_or(Error::TokenNotRecognized)?.client(&tokens, &self.application)
    }

    /// Returns the token and the rights of a session, for work that does not lock the session.
    fn access(&self, session: SessionHandle) -> Result<(Arc<ClientToken>, Rights)> {
        self.sessions.with(session, |session| Ok((Arc::clone(&session.token), session.rights())))
    }
}

/// An application ends with its module: otherwise its login would stay in memory.
impl Drop for Module {
    fn drop(&mut self) {
        // It fails if the application has called C_Finalize.
        let _ = self.finalize();
    }
}

impl Tokens {
    /// Finds the tokens.
    fn open(settings: Settings) -> Result<Self> {
        let settings = Arc::new(settings);
        backend::self_test()?;
        info!(backend = settings.provider.name, dir = %settings.token_dir.display(), "initialised");
        let source = store::source(&settings)?;
        let (applications, slots, listing, idle) = Default::default();
        let new = Self { settings, applications, source, slots, listing, idle };
        new.scan(&new.lock_list())?;
        Ok(new)
    }

    fn lock_list(&self) -> ListGuard<'_> {
        ListGuard { _lock: lock(&self.listing) }
    }

    /// Returns the token of a slot; `None` if the slot has no initialised token.
    fn known(&self, slot: SlotId) -> Result<Option<Arc<SlotToken>>> {
        let slots = lock(&self.slots);
        match find(&slots, slot) {
            Ok(known) => Ok(Some(Arc::clone(known))),
            Err(before) if slots[before..].iter().any(|known| known.id == slot) => Ok(None),
            Err(_) => Err(Error::SlotIdInvalid),
        }
    }

    /// Returns the token of a slot if it is in memory and no file is being opened for it.
    fn client_in_memory(&self, slot: SlotId, application: &Application) -> Option<Arc<ClientToken>> {
        find(&lock(&self.slots), slot).ok()?.try_client_in_memory(application)
    }

    /// Adds a token that may have no session to the queue `idle`. If the queue is too long, takes
    /// the first tokens out of it and removes them from memory, unless they are in use.
    fn note_idle(&self, slot: SlotId) {
        let Ok(Some(known)) = self.known(slot) else { return };
        let mut idle = lock(&self.idle);
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
fn find(slots: &[Slot], slot: SlotId) -> std::result::Result<&Arc<SlotToken>, usize> {
    let order =
        |known: &Slot| if known.token.is_some() { known.id.cmp(&slot) } else { cmp::Ordering::Greater };
    let at = slots.binary_search_by(order)?;
    slots[at].token.as_ref().ok_or(at)
}
