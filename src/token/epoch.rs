//! The epoch of a token: one word that says who is logged in, and counts the moments at which what a session remembers
//! may have become wrong: login, logout, a destroyed or changed object. The low two bits are the login.

use crate::object::policy::Login;
use crate::sync::{AtomicU64, Ordering};

/// One count.
const STEP: u64 = 4;
/// The bits of the login.
const LOGIN: u64 = STEP - 1;

/// The epoch.
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// Of a token that nobody is logged in to.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(bits(Login::Public)))
    }

    /// A number that changes whenever a handle, a right or a parsed key that a session remembers may be wrong.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Who is logged in.
    pub(super) fn login(&self) -> Login {
        match self.get() & LOGIN {
            1 => Login::User,
            2 => Login::Officer,
            _ => Login::Public,
        }
    }

    /// Another epoch of the same login.
    pub(super) fn bump(&self) {
        self.0.fetch_add(STEP, Ordering::AcqRel);
    }

    /// Publishes who is logged in, in one step with a new epoch.
    pub(super) fn publish(&self, login: Login) {
        let update = |epoch: u64| Some(((epoch & !LOGIN) + STEP) | bits(login));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }
}

const fn bits(login: Login) -> u64 {
    match login {
        Login::Public => 0,
        Login::User => 1,
        Login::Officer => 2,
    }
}
