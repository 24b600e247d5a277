//! The sessions of a token. Signatures that run at the same time use different sessions.

use std::sync::{Mutex, PoisonError};

use jeton_client::{Access, Failure, Module, Session, SlotId, User};

/// A token that is logged in, and its idle sessions.
pub(crate) struct Pool {
    module: Module,
    slot: SlotId,
    idle: Mutex<Vec<Session>>,
    /// Keeps the login, which ends with the last session (PKCS#11, C_CloseSession). Signatures
    /// never use this session.
    _login: Mutex<Session>,
}

impl Pool {
    /// Opens the first session, and logs in if there is a PIN. Succeeds if the process is already
    /// logged in.
    pub(crate) fn open(module: &Module, slot: SlotId, pin: Option<&str>) -> Result<Self, Failure> {
        let session = module.open_session(slot, Access::ReadOnly)?;
        if let Some(pin) = pin {
            match session.login(User::User, Some(pin)) {
                Err(failure) if failure.code == cryptoki_sys::CKR_USER_ALREADY_LOGGED_IN => {}
                login => login?,
            }
        }
        Ok(Self { module: module.clone(), slot, idle: Mutex::default(), _login: Mutex::new(session) })
    }

    /// Runs `work` with a session that no other thread uses. Closes the session if `work` fails,
    /// because an operation may be active in it.
    pub(crate) fn with<T, E: From<Failure>>(
        &self,
        work: impl FnOnce(&Session) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let session = match idle {
            Some(session) => session,
            None => self.module.open_session(self.slot, Access::ReadOnly)?,
        };
        let result = work(&session)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        Ok(result)
    }

    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }
}
