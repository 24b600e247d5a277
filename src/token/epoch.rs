//! The epoch of an application on a token: one word with the login and a counter. The counter
//! changes when something that a session remembers may be invalid. This happens at a login, at a
//! logout, when an object is changed or destroyed, and when changes of other processes are loaded.
//! The low two bits are the login.

use crate::object::access::Login;
use crate::sync::{AtomicU64, Ordering};

/// The increment of the counter.
const STEP: u64 = 4;
const LOGIN: u64 = STEP - 1;

/// The epoch of one application on one token.
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// Returns the epoch of a token without a login.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(bits(Login::Public)))
    }

    /// Returns a number that changes whenever a handle, a right or a parsed key that a session
    /// remembers may be invalid.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the role that is logged in.
    pub(super) fn login(&self) -> Login {
        match self.get() & LOGIN {
            1 => Login::User,
            2 => Login::SecurityOfficer,
            _ => Login::Public,
        }
    }

    /// Starts a new epoch with the same login.
    pub(super) fn bump(&self) {
        self.0.fetch_add(STEP, Ordering::AcqRel);
    }

    /// Publishes the login together with a new epoch.
    pub(super) fn publish(&self, login: Login) {
        let update = |epoch: u64| Some(((epoch & !LOGIN) + STEP) | bits(login));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }
}

const fn bits(login: Login) -> u64 {
    match login {
        Login::Public => 0,
        Login::User => 1,
        Login::SecurityOfficer => 2,
    }
}
