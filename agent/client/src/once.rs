//! Exactly once: the application of this process with its sessions, and the loop that carries a
//! call out while agents end and come back.
//!
//! Each request has a number on its connection, and the generation of its session. If its answer is
//! lost, it is sent again in the next generation, unless it may have changed something.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire::call::Here;
use jeton_agent_wire::{self as wire, Answer, Call, Malformed, Opening, Outcome, State, Unfit};
use jeton_words::asynchronous::Started;
use jeton_words::cipher::AeadScheme;
use jeton_words::effect::{Effect, Time};
use jeton_words::error::{Error, Result};
use jeton_words::id::{SessionHandle, SlotId};
use jeton_words::session::Access;
use jeton_words::slot::Wait;
use jeton_words::token::Function;

use crate::answer_check::fits;
use crate::local_answers::Certain;
use crate::timed_mutex::{TimedGuard, TimedMutex};
use crate::transport::connection::Lost;
use crate::transport::{Deadline, Linked, Pool, RETRY};
use recovery::{Copied, Login};

mod recovery;
#[cfg(feature = "split")]
mod split;

/// The longest pause before a call is sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// The greatest length of a serial number (`CK_TOKEN_INFO`).
const SERIAL: usize = 16;
/// How often a call with a PIN is sent at most. Each agent that gets it may keep it.
const PIN_SENDS: u32 = 3;

/// The application between `C_Initialize` and `C_Finalize`. A thread locks its session, then
/// `order`, then `logins`, `sessions` and `copies`, and then those of the pool. No call of a socket
/// happens under those after `order`.
#[derive(Default)]
pub struct Application {
    pub pool: Pool,
    /// Held while a session is opened or closed at the agent, and during a login: the last session
    /// of a token ends the login there, and a session at another agent needs the ticket.
    order: TimedMutex<()>,
    /// The logins of the application, by slot.
    logins: Mutex<HashMap<SlotId, Login>>,
    sessions: RwLock<HashMap<SessionHandle, Arc<Held>>>,
    last_session: AtomicU64,
    /// The [`Opening`] of the last request that opens a session. Changes while `order` is held.
    opening: AtomicU64,
    /// The session objects that can be made again, by slot and handle.
    copies: Mutex<HashMap<(SlotId, u64), Copied>>,
    /// The greatest handle of a session object so far. A new object gets a greater one, also after
    /// a restart, so that the handle of a lost object never names another one.
    last_object: AtomicU64,
    /// Changes with each call after which an `Init` function may have another outcome.
    certainty: AtomicU64,
}

/// A session, with what is read while another thread uses it.
pub struct Held {
    /// Its handle in the application.
    handle: SessionHandle,
    slot: SlotId,
    access: Access,
    asynchronous: bool,
    /// The serial number of the token.
    serial: Vec<u8>,
    /// The agent at which the session is open.
    epoch: AtomicU64,
    /// Whether the call that has the session may take longer than others.
    is_long: AtomicBool,
    session: TimedMutex<Session>,
}

impl Held {
    /// Returns whether a call in a session of this kind can have this answer.
    fn can_have(&self, answer: &Answer<'_>) -> bool {
        match &answer.outcome {
            Ok(Outcome::C_GetSessionInfo { result, .. }) => {
                (result.slot, result.access, result.asynchronous)
                    == (self.slot, self.access, self.asynchronous)
            }
            Ok(
                Outcome::C_GenerateKey { result: Started::Pending, .. }
                | Outcome::C_GenerateKeyPair { result: Started::Pending, .. },
            )
            | Err(Error::Pending) => self.asynchronous,
            _ => true,
        }
    }
}

#[derive(Default)]
struct Session {
    /// Its handle at the agent.
    handle: u64,
    /// Grows when an answer is lost, so that a late request does not meet the next operation.
    generation: u64,
    state: State,
    certain: Certain,
}

/// What the caller makes of an answer. `Malformed` if it does not fit the call.
pub type Taken<T> = Result<T, Malformed>;

/// Why a request has no answer.
enum Unanswered {
    /// It does not fit into a message.
    Unfit(Unfit),
    Lost(Lost),
}

impl From<Unfit> for Unanswered {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl From<Lost> for Unanswered {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// A call that the agent answered, with the connection and the place in the order that it had.
struct Done<'a, T> {
    result: Result<T>,
    linked: Linked<'a>,
    turn: Option<TimedGuard<'a, ()>>,
}

/// The attempts of a call. The pause before the next one grows: an agent may end each at once.
struct Attempts {
    deadline: Deadline,
    /// How often the call was sent.
    sent: u32,
    pause: Duration,
}

impl Attempts {
    fn new(deadline: Deadline) -> Self {
        Self { deadline, sent: 0, pause: RETRY }
    }

    /// Waits before another attempt. Fails after the deadline, and if a PIN was sent often enough.
    fn again(&mut self, function: Function) -> Result<()> {
        let left = self.deadline.left();
        if left.is_zero() || function.has_pin() && self.sent >= PIN_SENDS {
            return Err(Error::DeviceError);
        }
        thread::sleep(self.pause.min(left));
        self.pause = PAUSE.min(2 * self.pause);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Application {
    /// Ends the application.
    pub fn end(&self) {
        self.pool.end();
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).clear();
        lock(&self.copies).clear();
        lock(&self.logins).clear();
    }

    /// Carries out a call of a function without a session.
    pub fn call<T>(&self, call: &Call<'_>, take: impl FnOnce(Outcome<'_>) -> Taken<T>) -> Result<T> {
        self.carry_out(None, call, self.pool.deadline(), |answer| take_outcome(answer, take))?.result
    }

    /// Carries out a call in a session.
    pub fn call_in<T>(
        &self,
        handle: SessionHandle,
        call: &Call<'_>,
        take: impl FnOnce(Outcome<'_>) -> Taken<T>,
    ) -> Result<T> {
        self.call_until(self.pool.deadline(), handle, call, take)
    }

    /// Carries out a part of a call that began at this time.
    pub fn call_since<T>(
        &self,
        start: Instant,
        handle: SessionHandle,
        call: &Call<'_>,
        take: impl FnOnce(Outcome<'_>) -> Taken<T>,
    ) -> Result<T> {
        self.call_until(self.pool.deadline_since(start), handle, call, take)
    }

    fn call_until<T>(
        &self,
        deadline: Deadline,
        handle: SessionHandle,
        call: &Call<'_>,
        take: impl FnOnce(Outcome<'_>) -> Taken<T>,
    ) -> Result<T> {
        let held = self.find(handle)?;
        let (mut session, deadline) = self.lock_session(&held, call, deadline)?;
        let session = &mut *session;
        let certainty = self.certainty.load(Ordering::Acquire);
        if let Some(certain) = session.certain.answer(call, certainty, session.state.operations) {
            if matches!(certain, Outcome::C_FindObjectsFinal { .. }) {
                // The next request has another generation, which ends the search.
                session.fail();
            }
            return take(certain).map_err(|Malformed| Error::DeviceError);
        }
        let taken = |answer: Answer<'_>| take_outcome(answer, take);
        match self.carry_out(Some((&held, &mut *session)), call, deadline, taken) {
            Ok(done) => done.result,
            // It did not fit into a message. The operation ends, as if the token had refused it.
            Err(error @ (Error::DeviceMemory | Error::HostMemory)) => {
                let refused = Call::Refused { function: call.function(), error: Error::HostMemory };
                match self.carry_out(Some((&held, session)), &refused, deadline, refused_error)?.result {
                    Ok(Error::HostMemory) => Err(error),
                    Ok(other) | Err(other) => Err(other),
                }
            }
            Err(error) => {
                session.fail();
                if call.function() == Function::C_Logout {
                    // The agent may have carried it out. No other agent gets the ticket.
                    lock(&self.logins).remove(&held.slot);
                }
                Err(error)
            }
        }
    }

    /// Returns the cipher of the operation that a message-based function continues.
    pub fn message_cipher(&self, handle: SessionHandle, function: Function) -> Option<AeadScheme> {
        let held = self.find(handle).ok()?;
        let deadline = self.pool.deadline();
        let (session, _) = self.lock_session(&held, &Call::Clear(function), deadline).ok()?;
        session.certain.cipher(function, session.state.operations)
    }

    /// Opens a session.
    pub fn open(&self, slot: SlotId, access: Access, asynchronous: bool) -> Result<SessionHandle> {
        let (call, deadline) = (Call::C_OpenSession { slot, access, asynchronous }, self.pool.deadline());
        let Done { result, mut linked, turn: _turn } = self.carry_out(None, &call, deadline, opened)?;
        let (handle, serial) = result?;
        let new = SessionHandle(self.last_session.fetch_add(1, Ordering::Relaxed) + 1);
        let (epoch, is_long) = (AtomicU64::new(linked.epoch), AtomicBool::default());
        let session = TimedMutex::new(Session { handle, ..Session::default() });
        let held = Held { handle: new, slot, access, asynchronous, serial, epoch, is_long, session };
        let held = Arc::new(held);
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).insert(new, Arc::clone(&held));
        let is_whole = self.resume(&mut linked, slot, handle, deadline).is_ok_and(|()| {
            self.note_opened();
            !matches!(self.reopen_owners(slot, &mut linked, deadline), Err(Some(_)))
        });
        if !is_whole {
            // The next call opens the session again.
            held.epoch.store(0, Ordering::Release);
            linked.lost();
        }
        Ok(new)
    }

    /// Closes a session. It ends without an agent too.
    pub fn close(&self, handle: SessionHandle) -> Result<()> {
        let (held, call) = (self.find(handle)?, Call::C_CloseSession { session: Here });
        let (mut session, deadline) = self.lock_session(&held, &call, self.pool.deadline())?;
        // What waits would start an operation that ends at once.
        session.certain.drop_waiting();
        let is_there = self.pool.take_or_leave(deadline)?.map(|linked| linked.epoch);
        if is_there != Some(held.epoch.load(Ordering::Acquire)) {
            // The session ended with its agent.
            self.forget(&held);
            return Ok(());
        }
        let done = self.carry_out(Some((&held, &mut session)), &call, deadline, |answer| {
            take_outcome(answer, |_| Ok(()))
        });
        match done {
            Ok(Done { result, turn: _turn, .. }) => {
                // The answer of an earlier attempt may be lost.
                if matches!(result, Ok(()) | Err(Error::SessionHandleInvalid)) {
                    self.forget(&held);
                }
                result
            }
            // It ended with its agent.
            Err(Error::SessionHandleInvalid) => Ok(()),
            Err(error) => {
                session.fail();
                Err(error)
            }
        }
    }

    /// Closes the sessions on a token. They end without an agent too.
    pub fn close_all(&self, slot: SlotId) -> Result<()> {
        let deadline = self.pool.deadline();
        if self.pool.take_or_leave(deadline)?.is_some() {
            let call = Call::C_CloseAllSessions { slot };
            self.carry_out(None, &call, deadline, |answer| take_outcome(answer, |_| Ok(())))?.result?;
        }
        lock(&self.logins).remove(&slot);
        lock(&self.copies).retain(|(at, _), _| *at != slot);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, held| held.slot != slot);
        Ok(())
    }

    /// Logs out. The login ends without an agent too.
    pub fn log_out(&self, handle: SessionHandle) -> Result<()> {
        let (held, deadline) = (self.find(handle)?, self.pool.deadline());
        if self.pool.take_or_leave(deadline)?.is_none() {
            lock(&self.logins).remove(&held.slot);
            return Ok(());
        }
        self.call_until(deadline, handle, &Call::C_Logout { session: Here }, |_| Ok(()))
    }

    /// Locks a session for a call. Returns the deadline of the call too, which is a later one if
    /// another thread has a call in the session that may take longer.
    fn lock_session<'a>(
        &self,
        held: &'a Held,
        call: &Call<'_>,
        mut deadline: Deadline,
    ) -> Result<(TimedGuard<'a, Session>, Deadline)> {
        loop {
            if let Some(session) = held.session.lock_until(deadline.end) {
                held.is_long.store(time(call) != Time::Short, Ordering::Relaxed);
                return Ok((session, deadline));
            }
            if !self.pool.is_open() {
                return Err(Error::NotInitialized);
            }
            if !held.is_long.load(Ordering::Relaxed) {
                return Err(Error::DeviceError);
            }
            deadline = self.pool.deadline();
        }
    }

    fn find(&self, handle: SessionHandle) -> Result<Arc<Held>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let is_open = self.pool.is_open();
        let error = if is_open { Error::SessionHandleInvalid } else { Error::NotInitialized };
        sessions.get(&handle).cloned().ok_or(error)
    }

    /// Carries a call out, in a session if there is one. Fails if the agent did not answer it.
    fn carry_out<T>(
        &self,
        at: Option<(&Held, &mut Session)>,
        call: &Call<'_>,
        deadline: Deadline,
        take: impl FnOnce(Answer<'_>) -> Taken<Result<T>>,
    ) -> Result<Done<'_, T>> {
        let done = self.send_until_answered(at, call, deadline, take);
        if call.function().effect() != Effect::Reads {
            self.certainty.fetch_add(1, Ordering::AcqRel);
        }
        // The application may have ended meanwhile.
        done.map_err(|error| if self.pool.is_open() { error } else { Error::NotInitialized })
    }

    fn send_until_answered<T>(
        &self,
        mut at: Option<(&Held, &mut Session)>,
        call: &Call<'_>,
        deadline: Deadline,
        take: impl FnOnce(Answer<'_>) -> Taken<Result<T>>,
    ) -> Result<Done<'_, T>> {
        use Function as F;
        let function = call.function();
        let is_ordered =
            matches!(function, F::C_OpenSession | F::C_CloseSession | F::C_Login | F::C_Logout | F::C_SetPIN);
        let mut attempts = Attempts::new(deadline);
        loop {
            let mut linked = self.pool.take(deadline)?;
            if let Some((held, session)) = &mut at
                && held.epoch.load(Ordering::Acquire) != linked.epoch
            {
                if function == Function::C_CloseSession {
                    // The session ended with its agent.
                    self.forget(held);
                    return Err(Error::SessionHandleInvalid);
                }
                let had_operations = session.state.operations != 0;
                match self.reopen(held, session, &mut linked, deadline) {
                    // The operations ended with their agent.
                    Ok(()) if had_operations => return Err(Error::DeviceError),
                    Ok(()) => {}
                    Err(Some(_)) => {
                        linked.lost();
                        attempts.again(function)?;
                        continue;
                    }
                    Err(None) => {
                        self.forget(held);
                        return Err(Error::SessionHandleInvalid);
                    }
                }
            }
            let turn = if is_ordered { Some(self.turn(deadline)) } else { None };
            let turn = match turn.transpose() {
                Ok(turn) => turn,
                Err(_) => {
                    linked.lost();
                    attempts.again(function)?;
                    continue;
                }
            };
            let session = at.as_ref().map(|(_, session)| &**session);
            attempts.sent += 1;
            match self.exchange(&mut linked, session, call, deadline) {
                Ok(answers) => {
                    if let Ok(result) = self.note(at, call, answers, take) {
                        return Ok(Done { result, linked, turn });
                    }
                    linked.lost();
                    return Err(Error::DeviceError);
                }
                Err(Unanswered::Unfit(Unfit::TooLong)) => return Err(Error::DeviceMemory),
                Err(Unanswered::Unfit(Unfit::NoMemory)) => return Err(Error::HostMemory),
                Err(Unanswered::Lost(lost)) => {
                    linked.lost();
                    drop(turn);
                    if lost.is_malformed() || lost.sent && self.must_not_repeat(&at, function, deadline) {
                        return Err(Error::DeviceError);
                    }
                    attempts.again(function)?;
                    if let Some((_, session)) = &mut at {
                        session.generation += u64::from(lost.sent);
                    }
                }
            }
        }
    }

    /// Waits for the right to open or end a session, or to change a login. Fails if another thread
    /// found meanwhile that no agent answers: the calls of many threads would wait for a stopped
    /// agent one after the other.
    fn turn(&self, deadline: Deadline) -> Result<TimedGuard<'_, ()>, Lost> {
        self.order.lock_until(deadline.end).filter(|_| !self.pool.is_away()).ok_or_else(Lost::unsent)
    }

    /// Sends a request, and returns the answers to its calls.
    fn exchange<'l>(
        &self,
        linked: &'l mut Linked<'_>,
        session: Option<&Session>,
        call: &Call<'_>,
        deadline: Deadline,
    ) -> Result<Vec<Answer<'l>>, Unanswered> {
        let count = self.write(linked, session, call)?;
        let end = match time(call) {
            Time::Short => Some(deadline.end),
            Time::Slow => Some(deadline.slow()),
            Time::Long => None,
        };
        Ok(linked.connection.exchange_calls(count, end)?)
    }

    /// Returns whether a call whose answer is lost must not be sent again.
    fn must_not_repeat(
        &self,
        at: &Option<(&Held, &mut Session)>,
        function: Function,
        deadline: Deadline,
    ) -> bool {
        let has_operations = at.as_ref().is_some_and(|(_, session)| session.state.operations != 0);
        // Another agent does not know of what ended with the last one.
        let is_there = || {
            let linked = self.pool.take(deadline);
            let epoch = at.as_ref().map(|(held, _)| held.epoch.load(Ordering::Acquire));
            linked.is_ok_and(|linked| Some(linked.epoch) == epoch)
        };
        has_operations
            || match function.effect() {
                Effect::Reads => false,
                Effect::Changes => true,
                Effect::Ends => is_there(),
            }
    }

    /// Writes the request: the calls that wait, and this one. Returns their number.
    fn write(
        &self,
        linked: &mut Linked<'_>,
        session: Option<&Session>,
        call: &Call<'_>,
    ) -> Result<usize, Unfit> {
        let connection = &mut linked.connection;
        let waiting = session.map(|session| session.certain.waiting());
        let at = match session {
            Some(session) => (session.handle, session.generation),
            None if call.function() == Function::C_OpenSession => (0, self.open_again()),
            None => (0, 0),
        };
        let last = self.last_object.load(Ordering::Acquire);
        let object = if call.function().effect() != Effect::Reads && last != 0 { last + 1 } else { 0 };
        let count = waiting.as_ref().map_or(0, |waiting| waiting.len()) + 1;
        connection.begin(at, count, object)?;
        waiting.into_iter().flatten().for_each(|waiting| connection.frame().extend(waiting));
        wire::append(call, connection.frame())?;
        linked.finish()?;
        Ok(count)
    }

    /// Notes what the answers say of the session and the application, and takes the result.
    fn note<T>(
        &self,
        at: Option<(&Held, &mut Session)>,
        call: &Call<'_>,
        mut answers: Vec<Answer<'_>>,
        take: impl FnOnce(Answer<'_>) -> Taken<Result<T>>,
    ) -> Taken<Result<T>> {
        let waited = at.as_ref().map(|(_, session)| session.certain.check(&answers)).transpose()?;
        let answer = answers.pop().ok_or(Malformed)?;
        Malformed::unless(answers.len() < waited.unwrap_or(0) || fits(call, &answer))?;
        let Some((held, session)) = at else { return take(answer) };
        Malformed::unless(held.can_have(&answer))?;
        session.certain.check_signature(call, &answer)?;
        session.state = answer.state;
        if let Some(error) = answer.error().filter(|_| answers.len() < session.certain.waiting().len()) {
            // An `Init` function failed that was certain, because another process changed the
            // token.
            session.certain.forget(answers.len());
            session.certain.drop_waiting();
            return Ok(Err(error));
        }
        if let Ok(outcome) = &answer.outcome {
            session.certain.note(call, outcome, self.certainty.load(Ordering::Acquire));
            self.note_objects(held, call, outcome);
        }
        session.certain.drop_waiting();
        self.note_login(held, call.function(), &answer);
        take(answer)
    }

    /// Returns the generation of another request that opens a session. If that of before opened one
    /// which [`note_opened`](Self::note_opened) does not know, the agent closes it.
    fn open_again(&self) -> u64 {
        let next = Opening(self.opening.load(Ordering::Relaxed)).again();
        self.opening.store(next.0, Ordering::Relaxed);
        next.0
    }

    /// Notes that the application has the session of the last request.
    fn note_opened(&self) {
        let last = Opening(self.opening.load(Ordering::Relaxed));
        self.opening.store(last.done().0, Ordering::Relaxed);
    }

    /// Forgets a session. The last session on a token ends the login. If it was only the last one
    /// that is open at its agent, the next one logs in again.
    fn forget(&self, gone: &Held) {
        let mut logins = lock(&self.logins);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        lock(&self.copies).retain(|_, copied| copied.session != gone.handle);
        sessions.remove(&gone.handle);
        let mut left = sessions.values().filter(|held| held.slot == gone.slot).peekable();
        if left.peek().is_none() {
            logins.remove(&gone.slot);
        } else if let Some(login) = logins.get_mut(&gone.slot)
            && left.all(|held| held.epoch.load(Ordering::Acquire) != login.epoch)
        {
            login.epoch = 0;
        }
    }
}

/// Returns how long a call may take. One that is refused or only ends an operation takes no time.
fn time(call: &Call<'_>) -> Time {
    match call {
        Call::C_WaitForSlotEvent { wait: Wait::Never } | Call::Refused { .. } | Call::Clear(_) => Time::Short,
        call => call.function().time(),
    }
}

/// Returns the result of a call that did not fail.
fn take_outcome<T>(answer: Answer<'_>, take: impl FnOnce(Outcome<'_>) -> Taken<T>) -> Taken<Result<T>> {
    match answer.outcome {
        Ok(outcome) => take(outcome).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// Takes the handle and the serial number of a new session.
fn opened(answer: Answer<'_>) -> Taken<Result<(u64, Vec<u8>)>> {
    match (answer.outcome, answer.kept) {
        (Ok(Outcome::C_OpenSession { result, .. }), Some(serial)) if serial.len() <= SERIAL => {
            Ok(Ok((result.0, serial.to_vec())))
        }
        (Ok(_), _) => Err(Malformed),
        (Err(error), _) => Ok(Err(error)),
    }
}

/// Takes the error of a call that is refused.
fn refused_error(answer: Answer<'_>) -> Taken<Result<Error>> {
    answer.error().ok_or(Malformed).map(Ok)
}

impl Session {
    /// Ends the operations, also at an agent that goes on, because a call got no answer.
    fn fail(&mut self) {
        self.state.operations = 0;
        self.certain.drop_waiting();
        self.generation += 1;
    }
}
