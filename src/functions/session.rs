//! Sessions and the login (PKCS#11 3.2, "Session management functions").

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jeton_words::session::{Access, SessionInfo, User};
use tracing::warn;

use super::audit::Call;
use super::{Module, Threads};
use crate::error::{Error, Result, require};
use crate::id::{SessionHandle, SlotId, session_state as state};
use crate::object::access::Login;
use crate::session::Session;
use crate::store::Role;
use crate::token::ClientToken;

/// Returns the owner of the PIN that this user gives.
pub(super) const fn role(user: User) -> Role {
    match user {
        User::SecurityOfficer => Role::SecurityOfficer,
        User::User | User::ContextSpecific => Role::User,
    }
}

impl Module {
    /// `C_OpenSession`
    pub fn open_session(&self, slot: SlotId, access: Access) -> Result<SessionHandle> {
        self.open(slot, access, false)
    }

    /// `C_OpenSession` with `CKF_ASYNC_SESSION`.
    pub fn open_async_session(&self, slot: SlotId, access: Access) -> Result<SessionHandle> {
        require(self.threads() != Threads::Forbidden, Error::SessionAsyncNotSupported)?;
        self.open(slot, access, true)
    }

    /// Returns the number of open sessions of the application.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Records whether the application allows the module to create threads (PKCS#11 3.2,
    /// `CKF_LIBRARY_CANT_CREATE_OS_THREADS`). Call it before [`initialize`](Self::initialize).
    pub fn set_threads(&self, threads: Threads) {
        self.single.store(threads == Threads::Forbidden, Ordering::Release);
    }

    /// Returns whether the module may create threads. Asynchronous sessions need them.
    pub(super) fn threads(&self) -> Threads {
        if self.single.load(Ordering::Acquire) { Threads::Forbidden } else { Threads::Allowed }
    }

    fn open(&self, slot: SlotId, access: Access, asynchronous: bool) -> Result<SessionHandle> {
        let token = self.token_in(slot)?;
        let opened = self.sessions.open(number(&token), |handle| {
            let memory = Session::hold(&token)?;
            token.open_session(access)?;
            let mut session = Session::new(handle, token, access, asynchronous, memory);
            session.pending = self.pending.clone().filter(|_| asynchronous);
            Ok(session)
        });
        opened.inspect_err(|_| self.note_idle(slot))
    }

    fn note_idle(&self, slot: SlotId) {
        if let Ok(state) = self.state() {
            state.note_idle(slot);
        }
    }

    /// `C_CloseSession`
    pub fn close_session(&self, session: SessionHandle) -> Result<()> {
        let session = self.sessions.close(session)?;
        let left = session.token.close_session(session.handle, session.access);
        if session.asynchronous {
            self.jobs.close_session(session.handle);
        }
        if let Some(pending) = &session.pending {
            pending.remove(session.handle);
        }
        // The login ends with the last session.
        if session.token.login_state() == Login::Public {
            self.states.end_login(&session.token);
        }
        if left == 0 {
            let slot = session.token.slot;
            drop(session);
            self.note_idle(slot);
        }
        Ok(())
    }

    /// `C_CloseAllSessions`
    pub fn close_all_sessions(&self, slot: SlotId) -> Result<()> {
        // A token that is not in memory has no session.
        let Some(token) =
            self.state()?.known(slot)?.and_then(|known| known.client_in_memory(&self.application))
        else {
            return Ok(());
        };
        self.close_all(Some(&token));
        Ok(())
    }

    /// `C_GetSessionInfo`
    pub fn session(&self, session: SessionHandle) -> Result<SessionInfo> {
        self.sessions.with(session, |session| {
            let rights = session.rights();
            let state = match (rights.login, rights.access) {
                (Login::Public, Access::ReadOnly) => state::RO_PUBLIC_SESSION,
                (Login::User, Access::ReadOnly) => state::RO_USER_FUNCTIONS,
                (Login::Public, Access::ReadWrite) => state::RW_PUBLIC_SESSION,
                (Login::User, Access::ReadWrite) => state::RW_USER_FUNCTIONS,
                (Login::SecurityOfficer, _) => state::RW_SO_FUNCTIONS,
            };
            let (slot, asynchronous) = (session.token.slot, session.asynchronous);
            Ok(SessionInfo { slot, state, access: rights.access, asynchronous })
        })
    }

    /// `C_SessionCancel`. `flags` name the operations as in `CK_MECHANISM_INFO`.
    pub fn cancel(&self, session: SessionHandle, flags: u64) -> Result<()> {
        self.sessions.with(session, |session| {
            self.jobs.cancel(session.handle, flags);
            session.cancel(flags);
            Ok(())
        })
    }

    /// `C_Login`
    pub fn login(&self, session: SessionHandle, user: User, pin: &[u8]) -> Result<()> {
        self.record_login(session, "C_Login", user, |token| self.log_in(session, token, user, pin))
    }

    /// `C_LoginUser`. A token has the users of `C_Login` and no named users. With an empty name the
    /// function works like `C_Login`. Any other name fails with `CKR_PIN_INCORRECT`, the error of a
    /// failed authentication (PKCS#11 3.2, "Function return values"). No PIN is tried, so no
    /// failure is counted.
    pub fn login_user(&self, session: SessionHandle, user: User, pin: &[u8], name: &[u8]) -> Result<()> {
        self.record_login(session, "C_LoginUser", user, |token| {
            if name.is_empty() {
                return self.log_in(session, token, user, pin);
            }
            warn!(token = token.serial(), "login refused: the token has no named users");
            Err(Error::PinIncorrect)
        })
    }

    /// `C_GetSessionValidationFlags`, `CKS_LAST_VALIDATION_OK`. Returns the flag of the validation
    /// object if the last operation was an approved service. Only the build with the validated
    /// module has both.
    pub fn validation_flags(&self, session: SessionHandle) -> Result<u64> {
        self.sessions.with(session, |session| Ok(u64::from(session.approved)))
    }

    /// `C_Logout`
    pub fn logout(&self, session: SessionHandle) -> Result<()> {
        self.record_call(session, Call::of("C_Logout", None, &[]), |token, _| {
            token.logout()?;
            self.sessions.for_each(Some(number(&token)), |session| {
                if Arc::ptr_eq(&session.token, &token) {
                    session.clear_keys();
                }
            });
            // This comes after the loop, because a session may save a state until its keys are
            // cleared.
            self.states.end_login(&token);
            Ok(())
        })
    }

    fn record_login(
        &self,
        session: SessionHandle,
        function: &'static str,
        user: User,
        work: impl FnOnce(&ClientToken) -> Result<()>,
    ) -> Result<()> {
        let call = Call { user: Some(user.name()), ..Call::of(function, None, &[]) };
        self.record_call(session, call, |token, _| work(&token))
    }

    fn log_in(&self, session: SessionHandle, token: &ClientToken, user: User, pin: &[u8]) -> Result<()> {
        match user {
            User::SecurityOfficer | User::User => token.log_in(role(user), pin),
            User::ContextSpecific => self.login_for_operation(session, token, pin),
        }
    }

    /// Authenticates the user for the operation that the session has just started with a key that
    /// has `CKA_ALWAYS_AUTHENTICATE` (PKCS#11 3.2, C_Login). The PIN takes long to try. Meanwhile
    /// another thread may start an operation with another key, which the PIN was not given for.
    fn login_for_operation(&self, session: SessionHandle, token: &ClientToken, pin: &[u8]) -> Result<()> {
        let turn = self.sessions.with(session, Session::waits)?;
        token.authenticate(pin)?;
        self.sessions.with(session, |session| session.unlock(turn))
    }

    pub(super) fn close_all(&self, token: Option<&Arc<ClientToken>>) {
        let mut going = Vec::new();
        self.sessions.for_each(token.map(number), |session| {
            if token.is_none_or(|token| Arc::ptr_eq(&session.token, token)) {
                going.push(session.handle);
            }
        });
        for session in going {
            // If the application closed the session meanwhile, this call fails, which is fine.
            let _ = self.close_session(session);
        }
    }
}

fn number(token: &Arc<ClientToken>) -> u32 {
    // The lowest bits of an address are the same for all tokens.
    (Arc::as_ptr(token).addr() >> 4) as u32
}
