//! PINs and the login (PKCS#11 3.2, `C_InitToken`, `C_InitPIN`, `C_SetPIN`, `C_Login`).
//!
//! A PIN is tried without any lock held: Argon2id takes its time, and other sessions go on meanwhile.

use std::sync::Arc;

use tracing::{info, warn};

use super::Token;
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::object::policy::Login;
use crate::store::seal::{self, TokenKey};
use crate::store::trial::Trial;
use crate::store::{PinState, Role};

/// What a PIN opens.
struct Unwrapped {
    key: TokenKey,
    /// The life of the token that the key is of.
    life: i64,
    record: Vec<u8>,
}

impl Token {
    /// Initialises the token anew: needs the SO PIN that it has, destroys all objects and the user PIN.
    pub fn reinitialize(&self, so_pin: &[u8], label: [u8; 32]) -> Result<()> {
        if self.sessions().all != 0 {
            return Err(Error::SessionExists);
        }
        self.unwrap(Role::Officer, so_pin)?;
        let old = self.store.header()?;
        let header =
            Self::header(old.serial, old.slot, label, so_pin, &self.settings, old.change.next_life())?;
        let _change = self.change();
        self.store.initialize(&header)?;
        self.take_changes()
    }

    /// Logs in: the token key comes out of the PIN record, and with it the private objects.
    pub fn log_in(&self, role: Role, pin: &[u8]) -> Result<()> {
        self.may_log_in(role)?;
        let Unwrapped { key, life, record } = self.unwrap(role, pin)?;
        let key = Arc::new(key);
        self.enter(role, &key, life)?;
        self.strengthen((&key, life), role, &record, pin);
        Ok(())
    }

    /// The login with the token key at hand.
    fn enter(&self, role: Role, key: &Arc<TokenKey>, life: i64) -> Result<()> {
        let login = match role {
            Role::User => Login::User,
            Role::Officer => Login::Officer,
        };
        let _change = self.change();
        {
            let mut state = self.state();
            self.may_log_in(role)?;
            if role == Role::Officer && state.sessions != state.read_write_sessions {
                return Err(Error::SessionReadOnlyExists);
            }
            state.key = Some(Arc::clone(key));
            state.life = life;
        }
        if let Err(error) = self.take_all(key, login) {
            self.end_login(&mut self.state());
            return Err(error);
        }
        // Sessions came and went meanwhile.
        let mut state = self.state();
        let refused = match state.sessions {
            0 => Some(Error::SessionHandleInvalid),
            all if role == Role::Officer && all != state.read_write_sessions => {
                Some(Error::SessionReadOnlyExists)
            }
            _ => None,
        };
        match refused {
            Some(error) => {
                self.end_login(&mut state);
                Err(error)
            }
            None => {
                self.publish(login);
                Ok(())
            }
        }
    }

    /// Makes a PIN's record anew where its parameters are weaker than those that are configured now. The login holds
    /// whatever comes of it; another process may have been quicker, with a new PIN too.
    fn strengthen(&self, key: (&TokenKey, i64), role: Role, old: &[u8], pin: &[u8]) {
        let Some(rules) = seal::stronger(old, &self.settings.pins) else { return };
        let renewed = key.0.wrap(&self.serial, role, pin, &rules).and_then(|record| {
            let _change = self.change();
            self.commit_pin(key, role, Some(old), &record)
        });
        match renewed {
            Ok(done) => info!(token = self.serial, ?role, done, "the PIN's record is made anew"),
            Err(reason) => warn!(token = self.serial, ?role, ?reason, "the PIN's record stays weak"),
        }
    }

    /// Verifies the user's PIN once more, for one use of a key with `CKA_ALWAYS_AUTHENTICATE`.
    pub fn authenticate(&self, pin: &[u8]) -> Result<()> {
        if self.login_state() != Login::User {
            return Err(Error::UserNotLoggedIn);
        }
        self.unwrap(Role::User, pin).map(drop)
    }

    /// `C_InitPIN`: the SO sets the user's PIN, which unlocks it too.
    pub fn init_pin(&self, pin: &[u8]) -> Result<()> {
        if self.login_state() != Login::Officer {
            return Err(Error::UserNotLoggedIn);
        }
        self.fits(pin)?;
        let (key, life) = self.key()?;
        self.wrap((&key, life), Role::User, None, pin)
    }

    /// `C_SetPIN`: the SO's PIN while the SO is logged in, the user's otherwise.
    pub fn set_pin(&self, old: &[u8], new: &[u8]) -> Result<()> {
        self.refresh()?;
        let role = match self.login_state() {
            Login::Officer => Role::Officer,
            Login::User | Login::Public => Role::User,
        };
        self.fits(new)?;
        let Unwrapped { key, life, record } = self.unwrap(role, old)?;
        self.wrap((&key, life), role, Some(&record), new)
    }

    /// Whether a PIN has a length that is allowed.
    pub fn fits(&self, pin: &[u8]) -> Result<()> {
        fits(pin, &self.settings.pins)
    }

    fn may_log_in(&self, role: Role) -> Result<()> {
        match (self.login_state(), role) {
            (Login::Public, _) => Ok(()),
            (Login::User, Role::User) | (Login::Officer, Role::Officer) => Err(Error::UserAlreadyLoggedIn),
            _ => Err(Error::UserAnotherAlreadyLoggedIn),
        }
    }

    /// What a PIN record holds. The failure is on disk before the PIN is tried.
    fn unwrap(&self, role: Role, pin: &[u8]) -> Result<Unwrapped> {
        let header = self.store.header()?;
        let PinState { record, failures } = header.pin(role);
        if record.is_empty() {
            return Err(Error::UserPinNotInitialized);
        }
        let _trial = self.count(role).inspect_err(|_| {
            warn!(token = self.serial, ?role, failures, "login refused: the PIN is locked");
        })?;
        let key = TokenKey::unwrap(&self.serial, role, pin, record)
            .inspect_err(|_| warn!(token = self.serial, ?role, "login failed"))?;
        self.store.forgive(role)?;
        Ok(Unwrapped { key, life: header.change.life(), record: record.clone() })
    }

    /// Counts a failure. Where the limit is reached some may be about to be forgiven: it is reached when nobody else
    /// tries a PIN.
    fn count(&self, role: Role) -> Result<Trial> {
        let limit = self.settings.pins.retries;
        let trial = self.store.trial(false)?;
        match self.store.attempt(role, limit) {
            Err(Error::PinLocked) => {
                drop(trial);
                let alone = self.store.trial(true)?;
                self.store.attempt(role, limit).map(|()| alone)
            }
            outcome => outcome.map(|()| trial),
        }
    }

    /// Sets a PIN in the place of the one with the record `old`. Where another process was quicker, that PIN is the
    /// right one no more.
    fn wrap(&self, key: (&TokenKey, i64), role: Role, old: Option<&[u8]>, pin: &[u8]) -> Result<()> {
        let record = key.0.wrap(&self.serial, role, pin, &self.settings.pins)?;
        let _change = self.change();
        if self.commit_pin(key, role, old, &record)? { Ok(()) } else { Err(Error::PinIncorrect) }
    }
}

/// Whether a PIN has a length that the rules allow.
pub fn fits(pin: &[u8], rules: &PinRules) -> Result<()> {
    let fits = (rules.min_length..=rules.max_length).contains(&pin.len());
    if fits { Ok(()) } else { Err(Error::PinLenRange) }
}
