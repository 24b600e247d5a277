//! The module: what `C_Initialize` builds, and the only type that the C interface talks to.
//!
//! It is built once in a process and lives through `C_Finalize` and the next `C_Initialize`; a late call of another
//! thread therefore finds sessions closed, never memory that is gone. Its methods are the functions of PKCS#11, a
//! chapter a file.

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
use crate::store::sqlite::SqliteStore;
use crate::token::Token;

mod asynchronous;
mod audit;
mod crypt;
mod derive;
mod kem;
mod key;
mod message;
mod object;
mod operation;
mod password;
mod recover;
mod session;
mod slot;
mod state;
mod wrap;
mod wrap_authenticated;
mod wrap_ecdh;

pub use crate::session::operation::Output;
pub use asynchronous::{AsyncFunction, Completed};
pub use derive::{Additional, Connection, Derived};
pub use session::{SessionInfo, User};
pub use slot::{MechanismInfo, SlotInfo, TokenInfo};
pub use wrap_authenticated::Authenticated;

/// The module.
#[derive(Default)]
pub struct Module {
    sessions: SessionTable,
    state: RwLock<Option<Arc<State>>>,
    states: SavedStates,
    jobs: asynchronous::Jobs,
    /// Whether the application forbids threads of ours.
    single: AtomicBool,
}

/// What lives from `C_Initialize` to `C_Finalize`.
struct State {
    settings: Arc<Settings>,
    slots: Mutex<Vec<Slot>>,
}

/// A slot. The last one has no token: it is there to be initialised.
struct Slot {
    id: SlotId,
    token: Option<Arc<Token>>,
    /// Whether its token came since `C_Initialize` and nobody was told.
    event: bool,
}

impl Module {
    /// A module that is not initialised.
    pub fn new() -> Self {
        Self::default()
    }

    /// `C_Initialize`; `parameters` are library parameters as NSS passes them, in the form of
    /// [`config`](crate::config).
    pub fn initialize(&self, parameters: Option<&str>) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() {
            return Err(Error::AlreadyInitialized);
        }
        let settings = Arc::new(Settings::load(parameters, self.may_be_asynchronous())?);
        info!(backend = settings.provider.name, dir = %settings.token_dir.display(), "initialised");
        let mut slots = Vec::new();
        scan(&settings, &mut slots)?;
        // PKCS#11 3.2, C_WaitForSlotEvent: C_Initialize clears the flags of all events.
        slots.iter_mut().for_each(|slot| slot.event = false);
        self.jobs.open();
        *state = Some(Arc::new(State { settings, slots: Mutex::new(slots) }));
        Ok(())
    }

    /// `C_Finalize`: ends every session, wipes what was decrypted.
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

    /// The state, while initialised.
    fn state(&self) -> Result<Arc<State>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Error::NotInitialized)
    }

    /// The token of a slot: `TokenNotRecognized` where it was never initialised.
    fn token_in(&self, slot: SlotId) -> Result<Arc<Token>> {
        let state = self.state()?;
        let slots = state.slots();
        let slot = slots.iter().find(|known| known.id == slot).ok_or(Error::SlotIdInvalid)?;
        slot.token.clone().ok_or(Error::TokenNotRecognized)
    }

    /// What is wrong with the handle of a session; nothing where it is one.
    pub fn no_session(&self, session: SessionHandle) -> Option<Error> {
        self.access(session).err()
    }

    /// The token of a session and the session's rights, for work that does not hold the session.
    fn access(&self, session: SessionHandle) -> Result<(Arc<Token>, Rights)> {
        self.sessions.with(session, |session| Ok((Arc::clone(&session.token), session.rights())))
    }
}

impl Slot {
    /// Whether its token is the one in that file.
    fn is_of(&self, path: &Path) -> bool {
        let serial = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        self.token.as_ref().is_some_and(|token| token.serial() == serial)
    }
}

impl State {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes over the token files that are not in a slot yet, and sees that a slot without a token comes last.
fn scan(settings: &Arc<Settings>, slots: &mut Vec<Slot>) -> Result<()> {
    for path in SqliteStore::files(&settings.token_dir)? {
        if slots.iter().any(|slot| slot.is_of(&path)) {
            continue;
        }
        match adopt(settings, slots, &path) {
            Ok(token) => {
                // The empty slot that it was initialised in.
                slots.retain(|slot| slot.id != token.slot);
                slots.push(Slot { id: token.slot, token: Some(Arc::new(token)), event: true });
            }
            // One damaged file must not take the other tokens away; the store named it in the log.
            Err(reason) => error!(file = %path.display(), ?reason, "token left out"),
        }
    }
    slots.sort_by_key(|slot| (slot.token.is_none(), slot.id));
    if slots.iter().all(|slot| slot.token.is_some()) {
        slots.push(Slot { id: next_free(slots), token: None, event: false });
    }
    Ok(())
}

/// Opens a token file in the slot that it names, or the next free one where another token has that.
fn adopt(settings: &Arc<Settings>, slots: &[Slot], path: &Path) -> Result<Token> {
    let store = SqliteStore::open(path)?;
    let wanted = SlotId(store.header()?.slot);
    let taken = slots.iter().any(|slot| slot.id == wanted && slot.token.is_some());
    let slot = if taken { next_free(slots) } else { wanted };
    Token::open(slot, Arc::clone(settings), Box::new(store))
}

fn next_free(slots: &[Slot]) -> SlotId {
    SlotId(slots.iter().map(|slot| slot.id.0 + 1).max().unwrap_or(0))
}
