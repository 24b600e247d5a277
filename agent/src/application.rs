//! Applications, and the calls of their connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton::error::Error;
use jeton::functions::{Module, PinMark, Threads, User};
use jeton::id::{SessionHandle, SlotId};
use jeton::token::Identity;
use jeton_agent_wire::argument::Input;
use jeton_agent_wire::{
    self as wire, Answer, Application as Name, Argument, Call, Function, Malformed, Opening, Reply, State,
};
use serde_bytes::Bytes;
use tracing::warn;

use crate::budget::{Budget, Unserved};
use crate::dispatch::carry_out;
use crate::ticket::{Holder, Login};
use crate::{Application, Connection, lock};

/// The time between two looks for an event of a slot.
const POLL: Duration = Duration::from_millis(250);

impl Connection<'_> {
    /// Starts an application.
    pub(crate) fn begin(&mut self, single: bool) -> Reply<'static> {
        let mut name = Name::default();
        if getrandom::fill(&mut name).is_err() {
            return Reply::Refused("no random bytes");
        }
        let identity = Identity {
            name: self.peer().to_owned(),
            objects: self.rule().and_then(|rule| rule.objects.clone()),
            memory: Some(Arc::clone(&self.client().memory)),
        };
        let Ok(module) = self.agent.module.join_for(Some(identity)) else {
            return Reply::Refused("the agent ends");
        };
        if single {
            module.set_threads(Threads::Forbidden);
        }
        // Another agent may have made tokens since this one looked.
        if let Err(error) = module.slots() {
            warn!(?error, "cannot list the tokens");
        }
        let (standing, connections) = (Arc::clone(&self.standing), AtomicUsize::new(1));
        let (since, (is_ended, tickets, ended)) = (Instant::now(), Default::default());
        let (opened, refused, pace) = Default::default();
        let application = Application {
            module,
            standing,
            is_ended,
            since,
            connections,
            tickets,
            ended,
            opened,
            refused,
            pace,
        };
        let application = Arc::new(application);
        lock(&self.agent.applications).insert(name, Arc::clone(&application));
        self.application = Some((name, application));
        self.started(name)
    }

    fn started(&self, application: Name) -> Reply<'static> {
        Reply::Started { version: wire::VERSION, application, longest: self.longest() as u64 }
    }

    pub(crate) fn join(&mut self, name: Name) -> Reply<'static> {
        let applications = lock(&self.agent.applications);
        let is_open = |known: &&Arc<Application>| {
            known.standing.identity == self.peer() && !known.is_ended.load(Ordering::Acquire)
        };
        let known = applications.get(&name).filter(is_open);
        let Some(application) = known else { return Reply::Unknown };
        application.connections.fetch_add(1, Ordering::AcqRel);
        self.application = Some((name, Arc::clone(application)));
        self.started(name)
    }

    /// Carries out a request that opens a session, unless it is late. Another attempt for the same
    /// session closes what the last one opened: its answer was lost.
    pub(crate) fn open(
        &self,
        application: &Application,
        opening: Opening,
        frame: &mut Vec<u8>,
        calls: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut last = lock(&application.opened);
        let (before, session) = *last;
        if opening <= before {
            warn!(peer = self.peer(), "a late request that opens a session is not carried out");
            return self.answer_with(application, 0, CKR_DEVICE_ERROR, Vec::new(), frame).map(drop);
        }
        if let Some(session) = session.filter(|_| opening.repeats(before)) {
            // It may have ended since.
            let _ = application.module.close_session(session);
        }
        *last = (opening, None);
        let start = frame.len();
        calls(frame)?;
        let answer: Answer<'_> = wire::take(&mut &frame[start..])?;
        let handle = answer.outputs.first().filter(|_| answer.code == CKR_OK);
        let handle = handle.and_then(|handle| handle[..].try_into().ok()).map(u64::from_ne_bytes);
        last.1 = handle.map(SessionHandle);
        Ok(())
    }

    /// Carries out calls, up to the first one that fails.
    pub(crate) fn calls(
        &self,
        application: &Application,
        (session, generation): (u64, u64),
        count: u8,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        Malformed::unless(usize::from(count) <= wire::MAX_CALLS)?;
        self.client().figures.calls.fetch_add(u64::from(count), Ordering::Relaxed);
        let turn = application.module.with_session(SessionHandle(session), |session| Ok(session.turn())).ok();
        // A session that begins later has no turn here: the calls get one that never exists.
        let session = if turn.is_some() { session } else { CK_INVALID_HANDLE };
        // Held during all calls: those of another request do not come between them.
        let mut latest = turn.as_deref().map(lock);
        if let Some(latest) = latest.as_deref_mut().filter(|latest| **latest != generation) {
            if generation < *latest {
                warn!(peer = self.peer(), "a late request in a session is not carried out");
                let code = CKR_SESSION_HANDLE_INVALID;
                return self.answer_with(application, session, code, Vec::new(), frame).map(drop);
            }
            // Key generations go on. If the session was closed meanwhile, the calls fail.
            let flags = !(CKF_GENERATE | CKF_GENERATE_KEY_PAIR);
            let _ = application.module.cancel(SessionHandle(session), flags);
            *latest = generation;
        }
        jeton_pkcs11::with_module(&application.module, || {
            for _ in 0..count {
                let mut call: Call<'_> = wire::take(&mut message)?;
                let waits = stop_waiting(&mut call);
                let start = frame.len();
                let mut code = self.call(application, session, &mut call, frame, budget)?;
                while waits && code == CKR_NO_EVENT {
                    frame.truncate(start);
                    Malformed::unless(!self.has_ended(POLL))?;
                    code = self.call(application, session, &mut call, frame, budget)?;
                }
                if code != CKR_OK {
                    return Ok(());
                }
            }
            Malformed::unless(message.is_empty())
        })
    }

    /// Carries out a call, and appends its answer. Returns its code.
    fn call(
        &self,
        application: &Application,
        session: u64,
        call: &mut Call<'_>,
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<CK_RV, Malformed> {
        if let Some(rule) = self.rule()
            && let Some(code) = self.by_rule(rule, application, session, call, frame)?
        {
            return Ok(code);
        }
        self.call_module(application, session, call, frame, budget)
    }

    /// Carries out a call that the rule allows.
    fn call_module(
        &self,
        application: &Application,
        session: u64,
        call: &mut Call<'_>,
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<CK_RV, Malformed> {
        let module = &application.module;
        let tries = self.agent.pins.of_call(self.peer(), module, session, call);
        let mut tries = tries.as_deref().map(lock);
        if tries.as_mut().is_some_and(|tries| tries.are_used_up(self.peer())) {
            return self.answer_with(application, session, CKR_PIN_LOCKED, Vec::new(), frame);
        }
        let mark = mark(module, session, call);
        let mut outcome = CKR_GENERAL_ERROR;
        let carried = carry_out(call.function, session, &call.arguments, budget, &mut |code, outputs| {
            // A token that the rule hides has no event.
            let is_hidden = code == CKR_OK && self.hides_event(call, outputs);
            let (code, outputs) = if is_hidden { (CKR_NO_EVENT, &[][..]) } else { (code, outputs) };
            outcome = code;
            let state = match session {
                0 => State::default(),
                _ => state(&application.module, session),
            };
            let kept = self.kept(application, session, call, code, mark);
            let kept = kept.as_deref().map(Bytes::new);
            let mut outputs = outputs.to_vec();
            let altered;
            if let (Some(rule), true) = (self.rule(), code == CKR_OK) {
                altered = self.after(rule, application, call, &outputs);
                if let (Some(altered), [first, ..]) = (&altered, &mut outputs[..]) {
                    *first = Bytes::new(altered);
                }
            }
            Ok(wire::append(&Answer { code, state, outputs, kept }, frame)?)
        });
        if let Some(tries) = &mut tries {
            tries.count(outcome);
        }
        match carried {
            Ok(()) => Ok(outcome),
            Err(Unserved::Malformed) => Err(Malformed),
            Err(Unserved::Impossible) => {
                drop(tries);
                call.arguments.iter_mut().for_each(Argument::spoil);
                self.call_module(application, session, call, frame, budget)
            }
            Err(Unserved::Memory) => {
                warn!(peer = self.peer(), function = call.function.name(), "no memory for a call");
                if call.function.continues() {
                    call.arguments.iter_mut().for_each(Argument::spoil);
                    let mut budget = Budget::new(&self.client().memory);
                    let _ =
                        carry_out(call.function, session, &call.arguments, &mut budget, &mut |_, _| Ok(()));
                }
                self.answer_with(application, session, CKR_DEVICE_MEMORY, Vec::new(), frame)
            }
        }
    }

    /// Answers a call without its function. Returns the code.
    pub(crate) fn answer_with(
        &self,
        application: &Application,
        session: u64,
        code: CK_RV,
        outputs: Vec<&Bytes>,
        frame: &mut Vec<u8>,
    ) -> Result<CK_RV, Malformed> {
        let state = if session == 0 { State::default() } else { state(&application.module, session) };
        wire::append(&Answer { code, state, outputs, kept: None }, frame)?;
        Ok(code)
    }

    /// Returns what the client keeps after a call.
    fn kept(
        &self,
        application: &Application,
        session: u64,
        call: &Call<'_>,
        code: CK_RV,
        mark: Option<PinMark>,
    ) -> Option<Vec<u8>> {
        let module = &application.module;
        let slot = || slot_of(module, session);
        match (call.function, code, &call.arguments[..]) {
            (Function::C_OpenSession, CKR_OK, [Argument::Number(slot), ..]) => {
                Some(module.token(SlotId(*slot)).ok()?.serial.into())
            }
            (
                Function::C_Login,
                CKR_OK,
                [Argument::Number(user @ (CKU_SO | CKU_USER)), Argument::Input(Input::Data(pin))],
            ) => self.ticket(application, session, *user, pin, mark?),
            (Function::C_Login, CKR_USER_ALREADY_LOGGED_IN, _) => {
                lock(&application.tickets).get(&slot()?).cloned()
            }
            // The ticket of before is of the old PIN.
            (Function::C_SetPIN, CKR_OK, [_, Argument::Input(Input::Data(pin))]) => {
                let kind = match module.session(SessionHandle(session)).ok()?.state {
                    CKS_RW_SO_FUNCTIONS => CKU_SO,
                    CKS_RW_USER_FUNCTIONS => CKU_USER,
                    _ => return None,
                };
                let mark = module.pin_mark(slot()?, user(kind)).ok()??;
                self.ticket(application, session, kind, pin, mark)
            }
            (Function::C_Logout, CKR_OK, _) => {
                lock(&application.tickets).remove(&slot()?);
                lock(&application.ended).insert(slot()?, logouts(application, session)?);
                None
            }
            _ => None,
        }
    }

    /// Makes the ticket of a login.
    fn ticket(
        &self,
        application: &Application,
        session: u64,
        user: u64,
        pin: &[u8],
        mark: PinMark,
    ) -> Option<Vec<u8>> {
        let slot = slot_of(&application.module, session)?;
        let token = serial(&application.module, session)?;
        let login = Login { user, logouts: logouts(application, session)?, mark, pin };
        let ticket = self.agent.tickets.seal(&Holder { peer: self.peer(), token: &token }, &login)?;
        lock(&application.tickets).insert(slot, ticket.clone());
        Some(ticket)
    }

    /// Logs in with a ticket. Returns the code.
    pub(crate) fn resume(&self, session: u64, ticket: &[u8]) -> CK_RV {
        let Some((_, application)) = &self.application else { return CKR_GENERAL_ERROR };
        let Some(token) = serial(&application.module, session) else { return CKR_SESSION_HANDLE_INVALID };
        // A ticket is a login: it may be older than the rule.
        if let Some(rule) = self.rule()
            && (self.has_ended(application.pace.turn(rule)) || rule.refuses(Function::C_Login))
        {
            return self.refuse_ticket(application, session, "refused by a rule");
        }
        let holder = Holder { peer: self.peer(), token: &token };
        let outcome = self.agent.tickets.open_for(&holder, ticket, |login| {
            let user = user(login.user);
            let slot = slot_of(&application.module, session).ok_or(Error::SessionHandleInvalid)?;
            if application.module.pin_mark(slot, user)? != Some(login.mark) {
                return Err(Error::PinIncorrect);
            }
            let session = SessionHandle(session);
            application.module.with_session(session, |session| {
                // The ticket of a login that the application has ended arrives late. The end of the
                // last session that was opened here is no logout: others may wait for their calls.
                if lock(&application.ended).get(&slot).is_some_and(|ended| login.logouts < *ended) {
                    return Err(Error::UserNotLoggedIn);
                }
                session.set_logouts(login.logouts);
                Ok(())
            })?;
            application.module.login(session, user, login.pin)
        });
        match outcome {
            Some(Ok(()) | Err(Error::UserAlreadyLoggedIn)) => {
                if let Some(slot) = slot_of(&application.module, session) {
                    lock(&application.tickets).insert(slot, ticket.to_vec());
                }
                CKR_OK
            }
            None => self.refuse_ticket(application, session, "not a ticket of this client, or void"),
            Some(Err(
                error @ (Error::PinIncorrect
                | Error::PinLocked
                | Error::UserNotLoggedIn
                | Error::UserPinNotInitialized
                | Error::UserAnotherAlreadyLoggedIn
                | Error::SessionReadOnlyExists),
            )) => self.refuse_ticket(application, session, &format!("{error:?}")),
            // The token cannot be read now. The client tries again with another session.
            Some(Err(error)) => {
                warn!(peer = self.peer(), ?error, "a ticket does not log in now");
                let _ = application.module.close_session(SessionHandle(session));
                CKR_DEVICE_ERROR
            }
        }
    }

    /// Counts and records a ticket that does not log in. The application learns it from its next
    /// call.
    fn refuse_ticket(&self, application: &Application, session: u64, reason: &str) -> CK_RV {
        warn!(peer = self.peer(), reason, "a ticket does not log in");
        self.client().figures.refused.fetch_add(1, Ordering::Relaxed);
        let result = format!("ticket refused: {reason}");
        application.module.record_refusal(Some(SessionHandle(session)), "C_Login", None, result);
        CKR_USER_NOT_LOGGED_IN
    }
}

/// Returns how many logins on the token of a session have ended.
fn logouts(application: &Application, session: u64) -> Option<u64> {
    application.module.with_session(SessionHandle(session), |session| Ok(session.logouts())).ok()
}

/// Makes a call of `C_WaitForSlotEvent` that waits one that does not. Returns whether it was: the
/// agent waits itself, so that the wait ends with its peer.
fn stop_waiting(call: &mut Call<'_>) -> bool {
    let (Function::C_WaitForSlotEvent, Some(Argument::Number(flags))) =
        (call.function, call.arguments.first_mut())
    else {
        return false;
    };
    let waits = *flags & CKF_DONT_BLOCK == 0;
    *flags |= CKF_DONT_BLOCK;
    waits
}

/// Returns the mark of the PIN that a call of `C_Login` tries. It is read before the login: after a
/// change at the same time, it is the mark of the old PIN.
fn mark(module: &Module, session: u64, call: &Call<'_>) -> Option<PinMark> {
    match (call.function, call.arguments.first()) {
        (Function::C_Login, Some(Argument::Number(kind))) => {
            module.pin_mark(slot_of(module, session)?, user(*kind)).ok()?
        }
        _ => None,
    }
}

/// Returns the user of a number (`CKU_*`).
fn user(kind: u64) -> User {
    if kind == CKU_SO { User::SecurityOfficer } else { User::User }
}

/// Returns what a session has besides itself.
fn state(module: &Module, session: u64) -> State {
    let seen = module.with_session(SessionHandle(session), |session| {
        Ok(State { operations: session.active(), objects: session.session_objects() as u64 })
    });
    seen.unwrap_or_default()
}

pub(crate) fn is_user(module: &Module, session: u64) -> bool {
    let state = module.session(SessionHandle(session)).map(|session| session.state);
    state.is_ok_and(|state| matches!(state, CKS_RO_USER_FUNCTIONS | CKS_RW_USER_FUNCTIONS))
}

pub(crate) fn slot_of(module: &Module, session: u64) -> Option<SlotId> {
    module.session(SessionHandle(session)).ok().map(|session| session.slot)
}

fn serial(module: &Module, session: u64) -> Option<Vec<u8>> {
    let slot = slot_of(module, session)?;
    Some(module.token(slot).ok()?.serial.into())
}
