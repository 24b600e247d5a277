//! Applications, and the calls of their connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jeton::error::{Error, Result};
use jeton::functions::{Module, PinMark, Threads, User, Wait};
use jeton::id::{SessionHandle, SlotId, mechanism_flag, session_state};
use jeton::token::Identity;
use jeton_agent_wire::{
    self as wire, Answer, Application as Name, Call, Malformed, Opening, Outcome, Reply, State,
};
use jeton_words::token::Function;
use serde_bytes::Bytes;
use tracing::{debug, info, warn};

use crate::connection::Connection;
use crate::dispatch::carry_out;
use crate::link::{Answer as Answered, Question, ToFront};
use crate::request_memory::Budget;
use crate::ticket::{self, Login};
use crate::worker::Application;
use crate::{CONNECTION, lock};

/// The time between two looks for an event of a slot.
const POLL: Duration = Duration::from_millis(250);
/// How long a new connection waits for its turn, and for its memory. The client waits for two
/// seconds.
const ADMISSION: Duration = Duration::from_millis(900);

impl Connection<'_> {
    /// Takes the turn and the memory of the connection. A client that asks whether the agent lives
    /// needs none.
    fn is_admitted(&mut self) -> bool {
        if !self.has_turn(ADMISSION) {
            self.worker.note_refusal("the calls of the client fill the next second");
            return false;
        }
        // Calls of the client may have the memory now.
        self.permit = self.worker.memory.take(CONNECTION, ADMISSION);
        if self.permit.is_none() {
            self.worker.note_refusal("no memory of the client for one more connection");
        }
        self.permit.is_some()
    }

    /// Starts an application, with the client that its process was before.
    pub(crate) fn begin(&mut self, single: bool, before: Option<(String, ticket::Key)>) -> Reply<'static> {
        if !self.is_admitted() {
            return Reply::Busy;
        }
        let mut name = Name::default();
        if getrandom::fill(&mut name).is_err() {
            return Reply::Refused("no random bytes");
        }
        let identity = Identity {
            name: self.peer().to_owned(),
            objects: self.rule().and_then(|rule| rule.objects.clone()),
            memory: Some(Arc::clone(&self.worker.memory)),
        };
        let Ok(module) = self.worker.module.join_for(Some(identity)) else {
            return Reply::Refused("the agent ends");
        };
        if single {
            module.set_threads(Threads::Forbidden);
        }
        // Another agent may have made tokens since this one looked.
        if let Err(error) = module.slots() {
            warn!(?error, "cannot list the tokens");
        }
        let application = Arc::new(Application::new(module, self.number, before));
        lock(&self.worker.applications).insert(name, Arc::clone(&application));
        self.worker.office.tell(ToFront::Began(self.number, name, single));
        self.application = Some((name, application));
        self.started(name)
    }

    fn started(&self, application: Name) -> Reply<'static> {
        Reply::Started { version: wire::VERSION, application, longest: self.longest() as u64 }
    }

    pub(crate) fn join(&mut self, name: Name) -> Reply<'static> {
        let worker = Arc::clone(self.worker);
        let is_open = |known: &&Arc<Application>| !known.is_ended.load(Ordering::Acquire);
        if lock(&worker.applications).get(&name).filter(is_open).is_none() {
            return self.go_on(name);
        }
        if !self.is_admitted() {
            return Reply::Busy;
        }
        // It may have ended meanwhile.
        let applications = lock(&worker.applications);
        let known = applications.get(&name).filter(is_open);
        let Some(application) = known else { return Reply::Unknown };
        application.connections.fetch_add(1, Ordering::AcqRel);
        self.application = Some((name, Arc::clone(application)));
        self.started(name)
    }

    /// Starts an application that goes on for one of another client, if both clients are one
    /// process that has changed its user: see [`Question::Before`].
    fn go_on(&mut self, name: Name) -> Reply<'static> {
        let worker = Arc::clone(self.worker);
        let granted = worker.office.ask(Question::Before(self.number, name), || self.is_gone());
        match granted.as_ref().map(|granted| &granted.answer) {
            Ok(Answered::Before(from, key, single)) => {
                info!(peer = self.peer(), from, "an application goes on as another client");
                self.begin(*single, Some((from.clone(), ticket::Key::new(key))))
            }
            _ => Reply::Unknown,
        }
    }

    /// Returns whether the peer has closed the connection.
    pub(crate) fn is_gone(&self) -> bool {
        self.has_ended(Duration::from_micros(1))
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
            return self.append(application, NONE, Err(Error::DeviceError), None, frame).map(drop);
        }
        if let Some(session) = session.filter(|_| opening.repeats(before)) {
            // It may have ended since.
            let _ = application.module.close_session(session);
        }
        *last = (opening, None);
        let start = frame.len();
        calls(frame)?;
        let answer: Answer<'_> = wire::take(&mut &frame[start..])?;
        if let Ok(Outcome::C_OpenSession { result, .. }) = answer.outcome {
            last.1 = Some(result);
        }
        Ok(())
    }

    /// Carries out calls, up to the first one that fails.
    pub(crate) fn calls(
        &self,
        application: &Application,
        (session, generation): (SessionHandle, u64),
        count: u8,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        Malformed::unless(usize::from(count) <= wire::MAX_CALLS)?;
        let turn = application.module.with_session(session, |session| Ok(session.turn())).ok();
        // A session that begins later has no turn here: the calls get one that never exists.
        let session = if turn.is_some() { session } else { NONE };
        // Held during all calls: those of another request do not come between them.
        let mut latest = turn.as_deref().map(lock);
        if let Some(latest) = latest.as_deref_mut().filter(|latest| **latest != generation) {
            if generation < *latest {
                warn!(peer = self.peer(), "a late request in a session is not carried out");
                let late = Err(Error::SessionHandleInvalid);
                return self.append(application, session, late, None, frame).map(drop);
            }
            // Key generations go on. If the session was closed meanwhile, the calls fail.
            let flags = !(mechanism_flag::GENERATE | mechanism_flag::GENERATE_KEY_PAIR);
            let _ = application.module.cancel(session, flags);
            *latest = generation;
        }
        for _ in 0..count {
            let before = message.len();
            let call = wire::take(&mut message)?;
            if self.call(application, session, call, before - message.len(), frame, budget)?.is_err() {
                return Ok(());
            }
        }
        Malformed::unless(message.is_empty())
    }

    /// Carries out a call of this number of bytes, and appends its answer. Returns its result.
    fn call(
        &self,
        application: &Application,
        session: SessionHandle,
        mut call: Call<'_>,
        len: usize,
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<Result<()>, Malformed> {
        let function = call.function();
        self.worker.figures.note(&call);
        let mut waits = false;
        if let Call::C_WaitForSlotEvent { wait } = &mut call {
            // The agent waits itself, so that the wait ends with its peer.
            waits = std::mem::replace(wait, Wait::Never) == Wait::ForEvent;
        }
        loop {
            let start = frame.len();
            let result = self.call_once(application, session, &mut call, len, frame, budget)?;
            if !waits || result != Err(Error::NoEvent) {
                self.worker.figures.note_result(function, result);
                return Ok(result);
            }
            frame.truncate(start);
            Malformed::unless(!self.has_ended(POLL))?;
        }
    }

    fn call_once(
        &self,
        application: &Application,
        session: SessionHandle,
        call: &mut Call<'_>,
        len: usize,
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<Result<()>, Malformed> {
        if let Some(rule) = self.rule()
            && let Some(outcome) = self.by_rule(rule, application, session, call)?
        {
            return self.append(application, session, outcome, None, frame);
        }
        let module = &application.module;
        let attempt = match self.begin_try(module, session, call) {
            Ok(attempt) => attempt,
            Err(error) => return self.append(application, session, Err(error), None, frame),
        };
        // The parameter of a mechanism was copied from the message.
        if call.mechanism().is_some() && !budget.take(len) {
            return self.append(application, session, Err(Error::DeviceMemory), None, frame);
        }
        let run = call.function().has_pin().then(|| self.begin_run()).transpose();
        let _run = match run {
            Ok(run) => run,
            Err(error) => return self.append(application, session, Err(error), None, frame),
        };
        let mark = mark(module, session, call);
        let (function, slot, pin) = (call.function(), call.slot(), pin(call));
        let mut result = Err(Error::GeneralError);
        carry_out(module, session, call, budget, &mut |outcome| {
            let outcome = outcome.and_then(|outcome| self.after(application, slot, outcome));
            let kept = self.kept(application, session, (function, slot, pin), &outcome, mark);
            result = self.append(application, session, outcome, kept.as_deref(), frame)?;
            Ok(())
        })?;
        if let Err(error) = result {
            debug!(peer = self.peer(), function = function.name(), ?error, "the call failed");
        }
        if let Some(attempt) = attempt {
            attempt.end(result);
        }
        Ok(result)
    }

    /// Appends an answer. Returns its result.
    fn append(
        &self,
        application: &Application,
        session: SessionHandle,
        outcome: Result<Outcome<'_>>,
        kept: Option<&[u8]>,
        frame: &mut Vec<u8>,
    ) -> Result<Result<()>, Malformed> {
        let state = if session == NONE { State::default() } else { state(&application.module, session) };
        let answer = Answer { outcome, state, kept: kept.map(Bytes::new) };
        wire::append(&answer, frame)?;
        Ok(answer.error().map_or(Ok(()), Err))
    }

    /// Returns what the client keeps after a call.
    fn kept(
        &self,
        application: &Application,
        session: SessionHandle,
        (function, slot, pin): (Function, Option<SlotId>, Option<Pin<'_>>),
        outcome: &Result<Outcome<'_>>,
        mark: Option<PinMark>,
    ) -> Option<Vec<u8>> {
        let module = &application.module;
        let of_session = || slot_of(module, session);
        match (function, outcome, pin) {
            (Function::C_OpenSession, Ok(_), _) => Some(module.token(slot?).ok()?.serial.into()),
            (Function::C_Login, Ok(_), Some(Pin::Of(user @ (User::SecurityOfficer | User::User), pin))) => {
                self.ticket(application, session, user, pin, mark?)
            }
            (Function::C_Login, Err(Error::UserAlreadyLoggedIn), _) => {
                lock(&application.tickets).get(&of_session()?).cloned()
            }
            // The ticket of before is of the old PIN.
            (Function::C_SetPIN, Ok(_), Some(Pin::New(pin))) => {
                let user = match module.session(session).ok()?.state {
                    session_state::RW_SO_FUNCTIONS => User::SecurityOfficer,
                    session_state::RW_USER_FUNCTIONS => User::User,
                    _ => return None,
                };
                let mark = module.pin_mark(of_session()?, user).ok()??;
                self.ticket(application, session, user, pin, mark)
            }
            (Function::C_Logout, Ok(_), _) => {
                lock(&application.tickets).remove(&of_session()?);
                lock(&application.ended).insert(of_session()?, logouts(application, session)?);
                None
            }
            _ => None,
        }
    }

    /// Makes the ticket of a login.
    fn ticket(
        &self,
        application: &Application,
        session: SessionHandle,
        user: User,
        pin: &[u8],
        mark: PinMark,
    ) -> Option<Vec<u8>> {
        let slot = slot_of(&application.module, session)?;
        let token = serial(&application.module, session)?;
        let login = Login { user, logouts: logouts(application, session)?, mark, pin };
        let ticket = self.worker.tickets.seal(&token, &login)?;
        lock(&application.tickets).insert(slot, ticket.clone());
        Some(ticket)
    }

    /// Logs in with a ticket. Returns the ticket that takes its place, if it was one of the client
    /// that the process was before.
    pub(crate) fn resume(&self, session: SessionHandle, ticket: &[u8]) -> Result<Option<Vec<u8>>> {
        let (_, application) = self.application.as_ref().ok_or(Error::GeneralError)?;
        let token = serial(&application.module, session).ok_or(Error::SessionHandleInvalid)?;
        // A ticket is a login: it may be older than the rule.
        if let Some(rule) = self.rule()
            && (!self.has_turn(Duration::MAX) || rule.refuses(Function::C_Login))
        {
            return self.refuse_ticket(application, session, "refused by a rule");
        }
        let log_in = |login: &Login<'_>| {
            let user = login.user;
            let slot = slot_of(&application.module, session).ok_or(Error::SessionHandleInvalid)?;
            if application.module.pin_mark(slot, user)? != Some(login.mark) {
                return Err(Error::PinIncorrect);
            }
            application.module.with_session(session, |session| {
                // The ticket of a login that the application has ended arrives late. The end of the
                // last session that was opened here is no logout: others may wait for their calls.
                if lock(&application.ended).get(&slot).is_some_and(|ended| login.logouts < *ended) {
                    return Err(Error::UserNotLoggedIn);
                }
                session.set_logouts(login.logouts);
                Ok(())
            })?;
            let _run = self.begin_run()?;
            application.module.login(session, user, login.pin)
        };
        let mut renewed = None;
        let tickets = &self.worker.tickets;
        let mut outcome = tickets.open_for(&token, ticket, log_in);
        if outcome.is_err()
            && let Some((_, key)) = &application.before
        {
            outcome = key.open_for(&token, ticket, |login| {
                renewed = Some(tickets.seal(&token, login).ok_or(Error::GeneralError)?);
                log_in(login)
            });
        }
        match outcome {
            Ok(Ok(()) | Err(Error::UserAlreadyLoggedIn)) => {
                if let Some(slot) = slot_of(&application.module, session) {
                    lock(&application.tickets).insert(slot, renewed.as_deref().unwrap_or(ticket).to_vec());
                }
                Ok(renewed)
            }
            Err(unfit) => self.refuse_ticket(application, session, &unfit.to_string()),
            Ok(Err(
                error @ (Error::PinIncorrect
                | Error::PinLocked
                | Error::UserNotLoggedIn
                | Error::UserPinNotInitialized
                | Error::UserAnotherAlreadyLoggedIn
                | Error::SessionReadOnlyExists),
            )) => self.refuse_ticket(application, session, &format!("{error:?}")),
            // The token cannot be read now. The client tries again with another session.
            Ok(Err(error)) => {
                warn!(peer = self.peer(), ?error, "a ticket does not log in now");
                let _ = application.module.close_session(session);
                Err(Error::DeviceError)
            }
        }
    }

    /// Counts and records a ticket that does not log in. The application learns it from its next
    /// call.
    fn refuse_ticket<T>(&self, application: &Application, session: SessionHandle, reason: &str) -> Result<T> {
        warn!(peer = self.peer(), reason, "a ticket does not log in");
        self.worker.figures.refused.fetch_add(1, Ordering::Relaxed);
        self.worker.figures.failed_logins.fetch_add(1, Ordering::Relaxed);
        let result = format!("ticket refused: {reason}");
        application.module.record_refusal(Some(session), "C_Login", None, result);
        Err(Error::UserNotLoggedIn)
    }
}

/// The session of a request without one.
pub(crate) const NONE: SessionHandle = SessionHandle(0);

/// The PIN in a call.
#[derive(Clone, Copy)]
enum Pin<'a> {
    /// The PIN that `C_Login` tries.
    Of(User, &'a [u8]),
    /// The new PIN of `C_SetPIN`.
    New(&'a [u8]),
}

fn pin<'a>(call: &Call<'a>) -> Option<Pin<'a>> {
    match *call {
        Call::C_Login { user, pin, .. } => Some(Pin::Of(user, pin)),
        Call::C_SetPIN { new, .. } => Some(Pin::New(new)),
        _ => None,
    }
}

/// Returns how many logins on the token of a session have ended.
fn logouts(application: &Application, session: SessionHandle) -> Option<u64> {
    application.module.with_session(session, |session| Ok(session.logouts())).ok()
}

/// Returns the mark of the PIN that a call of `C_Login` tries. It is read before the login: after a
/// change at the same time, it is the mark of the old PIN.
fn mark(module: &Module, session: SessionHandle, call: &Call<'_>) -> Option<PinMark> {
    let Call::C_Login { user, .. } = call else { return None };
    let user = if *user == User::SecurityOfficer { User::SecurityOfficer } else { User::User };
    module.pin_mark(slot_of(module, session)?, user).ok()?
}

/// Returns what a session has besides itself.
fn state(module: &Module, session: SessionHandle) -> State {
    let seen = module.with_session(session, |session| {
        Ok(State { operations: session.active(), objects: session.session_objects() as u64 })
    });
    seen.unwrap_or_default()
}

pub(crate) fn is_user(module: &Module, session: SessionHandle) -> bool {
    let state = module.session(session).map(|session| session.state);
    state.is_ok_and(|state| {
        matches!(state, session_state::RO_USER_FUNCTIONS | session_state::RW_USER_FUNCTIONS)
    })
}

pub(crate) fn slot_of(module: &Module, session: SessionHandle) -> Option<SlotId> {
    module.session(session).ok().map(|session| session.slot)
}

fn serial(module: &Module, session: SessionHandle) -> Option<Vec<u8>> {
    let slot = slot_of(module, session)?;
    Some(module.token(slot).ok()?.serial.into())
}
