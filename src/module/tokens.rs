//! The tokens that have slots. The module opens a token when an application uses it. Until then,
//! and after the token was removed from memory, only some facts about it are in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::State;
use crate::error::{Error, Result};
use crate::id::SlotId;
use crate::store::Header;
use crate::token::{Remains, Token};

/// A token that has a slot. Its source has its store.
pub(super) struct SlotToken {
    slot: SlotId,
    pub(super) serial: String,
    /// The token; `None` if it is not in memory. The lock is held while its store is opened.
    token: Mutex<Option<Arc<Token>>>,
    last: Mutex<LastRead>,
    /// Whether it is in the queue of tokens that may be removed from memory.
    is_queued: AtomicBool,
}

/// What `C_GetTokenInfo` shows of a token's header.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) label: [u8; 32],
    pub(super) has_user_pin: bool,
    /// The numbers of consecutive wrong PINs of the SO and of the user.
    pub(super) so_failures: u32,
    pub(super) user_failures: u32,
}

/// What was read last of a token.
struct LastRead {
    /// Used while the source cannot be reached.
    facts: Facts,
    /// Used when the token is in memory again.
    remains: Remains,
}

impl Facts {
    fn of(header: &Header) -> Self {
        Self {
            label: header.label,
            has_user_pin: !header.user.record.is_empty(),
            so_failures: header.so.failures,
            user_failures: header.user.failures,
        }
    }
}

impl SlotToken {
    /// Returns a token with this header, which is not in memory.
    pub(super) fn new(slot: SlotId, header: &Header) -> Self {
        let last = LastRead { facts: Facts::of(header), remains: Remains::of_new(header.change) };
        Self {
            slot,
            serial: header.serial.clone(),
            token: Mutex::new(None),
            last: Mutex::new(last),
            is_queued: AtomicBool::new(false),
        }
    }

    /// Returns the token. Opens its store if the token is not in memory. Fails with `DeviceRemoved`
    /// if the token was removed or replaced since its slot was made.
    pub(super) fn token(&self, state: &State) -> Result<Arc<Token>> {
        let mut in_memory = lock(&self.token);
        if let Some(token) = &*in_memory {
            return Ok(Arc::clone(token));
        }
        let settings = Arc::clone(&state.settings);
        let token = Arc::clone(&state.source)
            .open(&self.serial)
            .and_then(|store| Token::resume(self.slot, settings, store, lock(&self.last).remains))
            // `TokenNotRecognized` is the error for a slot whose token was never initialised.
            .map_err(
                |reason| if reason == Error::TokenNotRecognized { Error::DeviceError } else { reason },
            )?;
        Ok(Arc::clone(in_memory.insert(Arc::new(token))))
    }

    /// Returns the token if it is in memory.
    pub(super) fn in_memory(&self) -> Option<Arc<Token>> {
        lock(&self.token).clone()
    }

    /// Returns the token if it is in memory. Does not wait while its store is opened or closed.
    pub(super) fn try_in_memory(&self) -> Option<Arc<Token>> {
        self.token.try_lock().ok()?.clone()
    }

    /// Removes the token from memory unless it is in use. This closes its store.
    fn forget(&self) {
        let mut in_memory = lock(&self.token);
        // New references to the token are made only under this lock.
        let unused = |token: &mut Arc<Token>| Arc::strong_count(token) == 1 && token.sessions().all == 0;
        if let Some(token) = in_memory.take_if(unused) {
            lock(&self.last).remains = token.remains();
        }
    }

    /// Returns the facts of the token, with the changes of other processes. During an outage,
    /// returns those that were read last.
    pub(super) fn facts(&self, state: &State) -> Result<Facts> {
        let is_open = self.in_memory().is_some_and(|token| token.is_file_open());
        let closed = if is_open { None } else { state.source.closed_header(&self.serial) };
        let header = closed.map_or_else(|| self.token(state).and_then(|token| token.stored_header()), Ok);
        let mut last = lock(&self.last);
        match header {
            Ok(header) => {
                last.facts = Facts::of(&header);
                last.remains.latest = last.remains.latest.max(header.change);
            }
            Err(reason) if state.source.is_outage(reason) => {}
            Err(reason) => return Err(reason),
        }
        Ok(last.facts)
    }

    /// Returns whether the token can only be read.
    pub(super) fn is_write_protected(&self, state: &State) -> Result<bool> {
        match self.in_memory() {
            Some(token) => Ok(token.is_write_protected()),
            None if state.source.looks_writable(&self.serial) => Ok(false),
            None => Ok(self.token(state)?.is_write_protected()),
        }
    }

    /// Marks the token as queued. Returns whether it was not queued before.
    pub(super) fn enter_queue(&self) -> bool {
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Marks the token as not queued. Removes it from memory unless it is in use.
    pub(super) fn leave_queue(&self) {
        self.is_queued.store(false, Ordering::Release);
        self.forget();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
