//! What is made again at another agent: sessions, logins, and copies of token objects.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use cryptoki_sys::{
    CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CKR_OK, CKR_USER_ALREADY_LOGGED_IN, CKR_USER_NOT_LOGGED_IN,
};
use jeton_agent_wire::{self as wire, Answer, Argument, Call, Function, Request};
use serde_bytes::Bytes;

use super::message::{begin, encoded, exchange};
use super::{Application, Held, Session, lock};
use crate::connection::Lost;
use crate::pool::Linked;

/// A session object that is a copy of a token object, and was not changed. OpenSSL's provider signs
/// with such a copy and keeps its handle, so it is made again at another agent.
pub(super) struct Copied {
    pub(super) session: CK_SESSION_HANDLE,
    /// The call of `C_CopyObject` that made it.
    call: Vec<u8>,
}

/// The bit of the handle of a token object.
pub(super) const STORED: CK_OBJECT_HANDLE = 1 << 60;
/// The bits of the handle of a session object that a login does not change.
pub(super) const NUMBER: CK_OBJECT_HANDLE = (1 << 40) - 1;

pub(super) struct Login {
    /// What logs in again at another agent.
    ticket: Vec<u8>,
    /// The agent that knows of the login.
    pub(super) epoch: u64,
}

impl Application {
    /// Keeps what makes a copy of a token object again, until it is changed or destroyed.
    pub(super) fn note_copy(&self, held: &Held, call: &Call<'_>, answer: &Answer<'_>) {
        let copies = || lock(&self.copies);
        match (call.function, &call.arguments[..], &answer.outputs[..]) {
            _ if answer.code != CKR_OK => {}
            (Function::C_CopyObject, [Argument::Number(source), ..], [handle]) if source & STORED != 0 => {
                let handle = handle[..].try_into().map_or(STORED, u64::from_ne_bytes);
                if let (0, Some(call)) = (handle & STORED, encoded(call)) {
                    copies().insert((held.slot, handle), Copied { session: held.handle, call });
                }
            }
            (
                Function::C_SetAttributeValue | Function::C_DestroyObject,
                [Argument::Number(handle), ..],
                _,
            ) => {
                copies().remove(&(held.slot, *handle));
            }
            // The private session objects end with the login.
            (Function::C_Logout, ..) => copies().retain(|(slot, _), _| *slot != held.slot),
            _ => {}
        }
    }

    /// Returns whether the application has no session objects on a token but such that can be made
    /// again.
    fn has_only_copies(&self, slot: u64, objects: u64) -> bool {
        objects == 0 || lock(&self.copies).keys().filter(|(at, _)| *at == slot).count() as u64 >= objects
    }

    /// Carries out a call of this module's own, which makes the session object with this handle
    /// again unless it is 0. Without a session, the call opens one. Fails with `None` if the call
    /// fails.
    fn carry_out<'a>(
        &self,
        linked: &'a mut Linked<'_>,
        session: u64,
        object: CK_OBJECT_HANDLE,
        call: &[u8],
    ) -> Result<Answer<'a>, Option<Lost>> {
        let connection = &mut linked.connection;
        let generation = if session == 0 { self.open_again() } else { 0 };
        begin(connection, (session, generation), 1, object).map_err(|_| None)?;
        connection.frame().extend(call);
        wire::finish(connection.frame()).map_err(|_| None)?;
        let mut answers = exchange(connection, 1, Some(self.pool.patience())).map_err(Some)?;
        answers.pop().filter(|answer| answer.code == CKR_OK).ok_or(None)
    }

    /// Makes the copies of a session again. Fails with `None` if one cannot be made.
    fn copy_again(&self, held: &Held, session: u64, linked: &mut Linked<'_>) -> Result<(), Option<Lost>> {
        let copies: Vec<_> = {
            let all = lock(&self.copies);
            let of_session = all.iter().filter(|(_, copied)| copied.session == held.handle);
            of_session.map(|((_, handle), copied)| (*handle, copied.call.clone())).collect()
        };
        for (object, call) in copies {
            let answer = self.carry_out(linked, session, object, &call)?;
            if answer.outputs.first().map(|handle| &handle[..]) != Some(&object.to_ne_bytes()[..]) {
                return Err(None);
            }
        }
        Ok(())
    }

    /// Opens a session again at another agent. Fails with `None` if it had something that is lost.
    pub(super) fn reopen(
        &self,
        held: &Held,
        session: &mut Session,
        linked: &mut Linked,
    ) -> Result<(), Option<Lost>> {
        // A call that waited during `C_Finalize` does not go on in the next application.
        let is_known = |sessions: &HashMap<_, _>| sessions.contains_key(&held.handle);
        if !is_known(&self.sessions.read().unwrap_or_else(PoisonError::into_inner))
            || !self.has_only_copies(held.slot, session.state.objects)
        {
            return Err(None);
        }
        let mut logins = self.lock_logins().map_err(Some)?;
        self.reopen_alone(held, session, linked, &mut logins)?;
        self.reopen_owners(held.slot, linked, &mut logins)
    }

    /// Opens the sessions that have copies at another agent, because a call may use a copy of
    /// another session. A session that another thread uses is opened by that thread.
    pub(super) fn reopen_owners(
        &self,
        slot: u64,
        linked: &mut Linked,
        logins: &mut HashMap<u64, Login>,
    ) -> Result<(), Option<Lost>> {
        let owners: Vec<_> = {
            let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
            let copies = lock(&self.copies);
            let owners = copies.values().filter_map(|copied| sessions.get(&copied.session));
            owners.filter(|owner| owner.slot == slot).map(Arc::clone).collect()
        };
        for owner in owners {
            if owner.epoch.load(Ordering::Acquire) != linked.epoch
                && let Ok(mut session) = owner.session.try_lock()
            {
                self.reopen_alone(&owner, &mut session, linked, logins)?;
            }
        }
        Ok(())
    }

    fn reopen_alone(
        &self,
        held: &Held,
        session: &mut Session,
        linked: &mut Linked,
        logins: &mut HashMap<u64, Login>,
    ) -> Result<(), Option<Lost>> {
        let pointers = [false, false, true].map(Argument::Pointer);
        let arguments = [Argument::Number(held.slot), Argument::Number(session.flags)];
        let arguments = arguments.into_iter().chain(pointers).collect();
        let call = Call { function: Function::C_OpenSession, arguments };
        let opened = {
            let answer = self.carry_out(linked, 0, 0, &encoded(&call).ok_or(None)?)?;
            // The other agent may have another token in this slot.
            answer.kept.filter(|serial| serial[..] == held.serial).ok_or(None)?;
            let bytes = answer.outputs.first().and_then(|bytes| bytes[..].try_into().ok());
            u64::from_ne_bytes(bytes.ok_or(None)?)
        };
        resume(logins, linked, held.slot, opened).map_err(Some)?;
        self.copy_again(held, opened, linked)?;
        self.note_opened();
        // While the logins are locked: a close in another thread sees which sessions are open.
        held.epoch.store(linked.epoch, Ordering::Release);
        (session.handle, session.generation) = (opened, 0);
        Ok(())
    }
}

/// Keeps the ticket of a login until the logout.
pub(super) fn note_login(
    logins: &mut HashMap<u64, Login>,
    held: &Held,
    function: Function,
    answer: &Answer<'_>,
) {
    match (function, answer.code, answer.kept) {
        // Also if the answer to the login was lost, or the PIN is another one now.
        (Function::C_Login, CKR_OK | CKR_USER_ALREADY_LOGGED_IN, Some(ticket))
        | (Function::C_SetPIN, CKR_OK, Some(ticket)) => {
            let login = Login { ticket: ticket.to_vec(), epoch: held.epoch.load(Ordering::Acquire) };
            logins.insert(held.slot, login);
        }
        (Function::C_Logout, CKR_OK, _) => {
            logins.remove(&held.slot);
        }
        _ => {}
    }
}

/// Logs in at an agent that does not know of the login yet. If the agent refuses the ticket, the
/// next call fails with the code that says so. Fails if the agent cannot log in now: it has closed
/// the session.
pub(super) fn resume(
    logins: &mut HashMap<u64, Login>,
    linked: &mut Linked<'_>,
    slot: u64,
    session: u64,
) -> Result<(), Lost> {
    let epoch = linked.epoch;
    let Some(login) = logins.get_mut(&slot).filter(|login| login.epoch != epoch) else { return Ok(()) };
    match linked.connection.ask(&Request::Resume { session, ticket: Bytes::new(&login.ticket) })? {
        CKR_OK | CKR_USER_NOT_LOGGED_IN => {
            login.epoch = epoch;
            Ok(())
        }
        _ => Err(Lost::malformed()),
    }
}
