//! The tokens that have slots. The module opens a token when an application uses it. Until then,
//! and after the token was removed from memory, only some facts about it are in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Tokens;
use crate::error::{Error, Result};
use crate::id::SlotId;
use crate::store::Header;
use crate::sync::lock;
use crate::token::{ClientToken, Identity, Remains, Token};

/// A token that has a slot. Its source has its store.
pub(super) struct SlotToken {
    slot: SlotId,
    pub(super) serial: String,
    /// The token; `None` if it is not in memory. The lock is held while its store is opened.
    token: Mutex<Option<Loaded>>,
    last: Mutex<LastRead>,
    /// Whether it is in the queue of tokens that may be removed from memory.
    is_queued: AtomicBool,
}

/// A token in memory, and the token as each application uses it that has used it.
struct Loaded {
    token: Arc<Token>,
    clients: Vec<(u64, Arc<ClientToken>)>,
}

pub(super) struct Application {
    /// No other application of this process has this number.
    number: u64,
    /// Who it works for; `None` for the only application of a process.
    pub(super) identity: Option<Arc<Identity>>,
}

impl Application {
    pub(super) fn new(identity: Option<Identity>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { number: LAST.fetch_add(1, Ordering::Relaxed), identity: identity.map(Arc::new) }
    }
}

impl Loaded {
    fn client(&mut self, application: &Application) -> Arc<ClientToken> {
        match self.clients.iter().find(|(number, _)| *number == application.number) {
            Some((_, client)) => Arc::clone(client),
            None => {
                let client = ClientToken::new(&self.token, application.identity.clone());
                self.clients.push((application.number, Arc::clone(&client)));
                client
            }
        }
    }

    /// Returns whether no call and no session uses the token.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.token) == 1 + self.clients.len()
            && self.clients.iter().all(|(_, client)| Arc::strong_count(client) == 1)
            && !self.token.has_sessions()
    }
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

    /// Returns the token as an application uses it. Opens its store if the token is not in memory.
    /// Fails with `DeviceRemoved` if the token was removed or replaced since its slot was made.
    pub(super) fn client(&self, tokens: &Tokens, application: &Application) -> Result<Arc<ClientToken>> {
        self.load(tokens, |loaded| loaded.client(application))
    }

    /// Like [`client`](Self::client), for what needs no application.
    fn token(&self, tokens: &Tokens) -> Result<Arc<Token>> {
        self.load(tokens, |loaded| Arc::clone(&loaded.token))
    }

    fn load<T>(&self, tokens: &Tokens, take: impl FnOnce(&mut Loaded) -> T) -> Result<T> {
        let mut in_memory = lock(&self.token);
        if let Some(loaded) = &mut *in_memory {
            return Ok(take(loaded));
        }
        let settings = Arc::clone(&tokens.settings);
        let token = Arc::clone(&tokens.source)
            .open(&self.serial)
            .and_then(|store| Token::resume(self.slot, settings, store, lock(&self.last).remains))
            // `TokenNotRecognized` is the error for a slot whose token was never initialised.
            .map_err(
                |reason| if reason == Error::TokenNotRecognized { Error::DeviceError } else { reason },
            )?;
        Ok(take(in_memory.insert(Loaded { token: Arc::new(token), clients: Vec::new() })))
    }

    /// Returns the token as an application uses it, if it is in memory.
    pub(super) fn client_in_memory(&self, application: &Application) -> Option<Arc<ClientToken>> {
        lock(&self.token).as_mut().map(|loaded| loaded.client(application))
    }

    /// Like `client_in_memory`. Does not wait while the token's store is opened or closed.
    pub(super) fn try_client_in_memory(&self, application: &Application) -> Option<Arc<ClientToken>> {
        self.token.try_lock().ok()?.as_mut().map(|loaded| loaded.client(application))
    }

    fn in_memory(&self) -> Option<Arc<Token>> {
        lock(&self.token).as_ref().map(|loaded| Arc::clone(&loaded.token))
    }

    pub(super) fn forget_application(&self, application: &Application) {
        if let Some(loaded) = &mut *lock(&self.token) {
            loaded.clients.retain(|(number, _)| *number != application.number);
        }
    }

    /// Removes the token from memory unless it is in use. This closes its store.
    fn forget(&self) {
        let mut in_memory = lock(&self.token);
        // New references to the token are made only under this lock.
        if let Some(loaded) = in_memory.take_if(|loaded| loaded.is_unused()) {
            lock(&self.last).remains = loaded.token.remains();
        }
    }

    /// Returns the facts of the token, with the changes of other processes. During an outage,
    /// returns those that were read last.
    pub(super) fn facts(&self, tokens: &Tokens) -> Result<Facts> {
        let header = self.header(tokens);
        let mut last = lock(&self.last);
        match header {
            Ok(header) => {
                last.facts = Facts::of(&header);
                last.remains.latest = last.remains.latest.max(header.change);
            }
            Err(reason) if tokens.source.is_outage(reason) => {}
            Err(reason) => return Err(reason),
        }
        Ok(last.facts)
    }

    /// Returns the header of the token, with the changes of other processes.
    pub(super) fn header(&self, tokens: &Tokens) -> Result<Header> {
        let is_open = self.in_memory().is_some_and(|token| token.is_file_open());
        let closed = if is_open { None } else { tokens.source.closed_header(&self.serial) };
        closed.map_or_else(|| self.token(tokens).and_then(|token| token.stored_header()), Ok)
    }

    /// Returns whether the token can only be read.
    pub(super) fn is_write_protected(&self, tokens: &Tokens) -> Result<bool> {
        match self.in_memory() {
            Some(token) => Ok(token.is_write_protected()),
            None if tokens.source.looks_writable(&self.serial) => Ok(false),
            None => Ok(self.token(tokens)?.is_write_protected()),
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
