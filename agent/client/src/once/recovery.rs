//! What is made again at another agent: sessions, logins, and copies of token objects.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use jeton_agent_wire::{self as wire, Answer, Call, Outcome, Reply, Request};
use jeton_secret::Secret;
use jeton_words::asynchronous::{Completed, Started};
use jeton_words::derive::{Connection, Derived};
use jeton_words::error::Error;
use jeton_words::id::{ObjectHandle, SessionHandle, SlotId};
use jeton_words::token::Function;
use serde_bytes::Bytes;

use super::{Application, Held, Session, lock};
use crate::transport::connection::Lost;
use crate::transport::{Deadline, Linked};

/// A session object that is a copy of a token object, and was not changed. OpenSSL's provider signs
/// with such a copy and keeps its handle, so it is made again at another agent.
pub(super) struct Copied {
    pub(super) session: SessionHandle,
    /// The call of `C_CopyObject` that made it.
    call: Vec<u8>,
}

/// The bit of the handle of a token object.
const STORED: u64 = 1 << 60;
/// The bits of the handle of a session object that a login does not change.
const NUMBER: u64 = (1 << 40) - 1;

pub(super) struct Login {
    /// What logs in again at another agent. It may be the PIN, if the agent is hostile.
    ticket: Secret,
    /// The agent that knows of the login.
    pub(super) epoch: u64,
}

impl Application {
    /// Notes which session objects the application has after a call in a session.
    pub(super) fn note_objects(&self, held: &Held, call: &Call<'_>, outcome: &Outcome<'_>) {
        for handle in made(outcome) {
            if handle.0 & STORED == 0 {
                self.last_object.fetch_max(handle.0 & NUMBER, Ordering::AcqRel);
            }
        }
        let copies = || lock(&self.copies);
        match (call, outcome) {
            // What makes a copy of a token object again, until it is changed or destroyed.
            (Call::C_CopyObject { object, .. }, Outcome::C_CopyObject { result, .. })
                if object.0 & STORED != 0 && result.0 & STORED == 0 =>
            {
                if let Some(call) = encoded(call) {
                    copies().insert((held.slot, result.0), Copied { session: held.handle, call });
                }
            }
            (Call::C_SetAttributeValue { object, .. } | Call::C_DestroyObject { object, .. }, _) => {
                copies().remove(&(held.slot, object.0));
            }
            // The private session objects end with the login.
            (Call::C_Logout { .. }, _) => copies().retain(|(slot, _), _| *slot != held.slot),
            _ => {}
        }
    }

    /// Returns whether the application has no session objects on a token but such that can be made
    /// again.
    fn has_only_copies(&self, slot: SlotId, objects: u64) -> bool {
        objects == 0 || lock(&self.copies).keys().filter(|(at, _)| *at == slot).count() as u64 >= objects
    }

    /// Carries out a call of this module's own, which makes the session object with this handle
    /// again unless it is 0. Without a session, the call opens one. Fails with `None` if the call
    /// fails.
    fn repeat<'a>(
        &self,
        linked: &'a mut Linked<'_>,
        session: u64,
        object: u64,
        call: &[u8],
        deadline: Deadline,
    ) -> Result<Answer<'a>, Option<Lost>> {
        let generation = if session == 0 { self.open_again() } else { 0 };
        linked.connection.begin((session, generation), 1, object).map_err(|_| None)?;
        linked.connection.frame().extend(call);
        linked.finish().map_err(|_| None)?;
        let answers = linked.connection.exchange_calls(1, Some(deadline.end));
        answers.map_err(Some)?.pop().filter(|answer| answer.error().is_none()).ok_or(None)
    }

    /// Makes the copies of a session again. Fails with `None` if one cannot be made.
    fn copy_again(
        &self,
        held: &Held,
        session: u64,
        linked: &mut Linked<'_>,
        deadline: Deadline,
    ) -> Result<(), Option<Lost>> {
        let copies: Vec<_> = {
            let all = lock(&self.copies);
            let of_session = all.iter().filter(|(_, copied)| copied.session == held.handle);
            of_session.map(|((_, handle), copied)| (*handle, copied.call.clone())).collect()
        };
        for (object, call) in copies {
            match self.repeat(linked, session, object, &call, deadline)?.outcome {
                Ok(Outcome::C_CopyObject { result, .. }) if result.0 == object => {}
                _ => return Err(None),
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
        deadline: Deadline,
    ) -> Result<(), Option<Lost>> {
        // A call that waited during `C_Finalize` does not go on in the next application.
        if !self.knows(held) || !self.has_only_copies(held.slot, session.state.objects) {
            return Err(None);
        }
        let _turn = self.turn(deadline).map_err(Some)?;
        self.reopen_alone(held, session, linked, deadline)?;
        self.reopen_owners(held.slot, linked, deadline)
    }

    /// Opens the sessions that have copies at another agent, because a call may use a copy of
    /// another session. A session that another thread uses is opened by that thread.
    pub(super) fn reopen_owners(
        &self,
        slot: SlotId,
        linked: &mut Linked,
        deadline: Deadline,
    ) -> Result<(), Option<Lost>> {
        let owners: Vec<_> = {
            let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
            let copies = lock(&self.copies);
            let owners = copies.values().filter_map(|copied| sessions.get(&copied.session));
            owners.filter(|owner| owner.slot == slot).map(Arc::clone).collect()
        };
        for owner in owners {
            if owner.epoch.load(Ordering::Acquire) != linked.epoch
                && let Some(mut session) = owner.session.try_lock()
            {
                self.reopen_alone(&owner, &mut session, linked, deadline)?;
            }
        }
        Ok(())
    }

    fn reopen_alone(
        &self,
        held: &Held,
        session: &mut Session,
        linked: &mut Linked,
        deadline: Deadline,
    ) -> Result<(), Option<Lost>> {
        let Held { slot, access, asynchronous, .. } = *held;
        let call = encoded(&Call::C_OpenSession { slot, access, asynchronous }).ok_or(None)?;
        let (opened, serial) = match super::opened(self.repeat(linked, 0, 0, &call, deadline)?) {
            Ok(Ok(opened)) => opened,
            _ => return Err(None),
        };
        // The other agent may have another token in this slot.
        if serial != held.serial {
            return Err(None);
        }
        self.resume(linked, held.slot, opened, deadline).map_err(Some)?;
        self.copy_again(held, opened, linked, deadline)?;
        self.note_opened();
        // While this thread has its turn: a close in another thread sees which sessions are open.
        held.epoch.store(linked.epoch, Ordering::Release);
        (session.handle, session.generation) = (opened, 0);
        Ok(())
    }
    /// Keeps the ticket of a login until the logout.
    pub(super) fn note_login(&self, held: &Held, function: Function, answer: &Answer<'_>) {
        match (function, answer.error(), answer.kept) {
            // Also if the answer to the login was lost, or the PIN is another one now.
            (Function::C_Login, None | Some(Error::UserAlreadyLoggedIn), Some(ticket))
            | (Function::C_SetPIN, None, Some(ticket)) => {
                let login =
                    Login { ticket: Secret::from(&ticket[..]), epoch: held.epoch.load(Ordering::Acquire) };
                let mut logins = lock(&self.logins);
                // The application may have ended meanwhile.
                if self.knows(held) {
                    logins.insert(held.slot, login);
                }
            }
            (Function::C_Logout, None, _) => {
                lock(&self.logins).remove(&held.slot);
            }
            _ => {}
        }
    }

    /// Logs in at an agent that does not know of the login yet. If the agent refuses the ticket,
    /// the next call fails with the error that says so. Fails if the agent cannot log in now: it
    /// has closed the session.
    pub(super) fn resume(
        &self,
        linked: &mut Linked<'_>,
        slot: SlotId,
        session: u64,
        deadline: Deadline,
    ) -> Result<(), Lost> {
        let epoch = linked.epoch;
        let ticket = match lock(&self.logins).get(&slot) {
            Some(login) if login.epoch != epoch => login.ticket.duplicate(),
            _ => return Ok(()),
        };
        let request = Request::Resume { session, ticket: Bytes::new(&ticket) };
        let ticket = match linked.connection.ask(&request, deadline.end)? {
            Reply::Resumed(Ok(()) | Err(Error::UserNotLoggedIn)) => ticket,
            Reply::Renewed(ticket) if ticket.len() <= wire::MAX_KEPT => Secret::from(&ticket[..]),
            _ => return Err(Lost::malformed()),
        };
        // Unless the application has ended the login meanwhile.
        if let Some(login) = lock(&self.logins).get_mut(&slot) {
            *login = Login { ticket, epoch };
        }
        Ok(())
    }

    /// Returns whether a session is one of the application: not after `C_Finalize`.
    fn knows(&self, held: &Held) -> bool {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).contains_key(&held.handle)
    }
}

/// Returns the objects that a call has made.
fn made(outcome: &Outcome<'_>) -> Vec<ObjectHandle> {
    match outcome {
        Outcome::C_CreateObject { result, .. }
        | Outcome::C_CopyObject { result, .. }
        | Outcome::C_UnwrapKey { result, .. }
        | Outcome::C_UnwrapKeyAuthenticated { result, .. }
        | Outcome::C_DecapsulateKey { result, .. }
        | Outcome::C_GenerateKey { result: Started::Done(result), .. } => vec![*result],
        Outcome::C_GenerateKeyPair { result: Started::Done((public, private)), .. } => {
            vec![*public, *private]
        }
        Outcome::C_EncapsulateKey { result: (_, key), .. } => key.iter().copied().collect(),
        Outcome::C_AsyncComplete { result: Completed { object, additional }, .. } => {
            additional.iter().chain([object]).copied().collect()
        }
        Outcome::C_DeriveKey { result, more } => {
            let keys = match result {
                Ok(Derived::Key(key) | Derived::Master(key, _)) => vec![*key],
                Ok(Derived::Connection(Connection { macs, keys, .. })) => {
                    [macs, keys].into_iter().flatten().flatten().copied().collect()
                }
                Ok(Derived::Output(_)) | Err(_) => Vec::new(),
            };
            more.iter().flatten().copied().chain(keys).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the bytes of a call. `None` if it does not fit into a message.
fn encoded(call: &Call<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    wire::append(call, &mut bytes).ok().map(|()| bytes)
}
