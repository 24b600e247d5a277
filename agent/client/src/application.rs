//! The application of this process: its connections to the agent, its sessions, and what it does
//! when the agent ended and is back.
//!
//! A call is one message and one answer. An `Init` function whose outcome is certain is not sent:
//! it travels with the next call of its session. It is certain if the same function with the same
//! arguments succeeded in this session before, and this application has changed no object and no
//! login since.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use cryptoki_sys::*;
use jeton_agent_wire::channel::wipe;
use jeton_agent_wire::{
    self as wire, Answer, Argument, Call, Function, Malformed, Opening, Parameter, State, mechanism, otp,
};
use serde_bytes::Bytes;

use crate::capture::Results;
use crate::connection::Lost;
use crate::pool::{Pool, RETRY, Refusal};
use crate::sent::Sent;
use message::{append, begin, changes, ends_with_agent, exchange, limit, refusal};
use recovery::{Copied, Login, NUMBER, STORED, note_login, resume};

mod message;
mod recovery;

/// The application between `C_Initialize` and `C_Finalize`. A thread locks its session, then
/// `logins`, then `sessions`, then `copies`, and then those of the pool.
#[derive(Default)]
pub struct Application {
    pool: Pool,
    sessions: RwLock<HashMap<CK_SESSION_HANDLE, Arc<Held>>>,
    last_session: AtomicU64,
    /// The logins of the application, by slot. Locked while a session is opened or closed at the
    /// agent, and during a login: the last session of a token ends the login there, and a session
    /// at another agent needs the ticket.
    logins: Mutex<HashMap<u64, Login>>,
    /// The [`Opening`] of the last request that opens a session. Changes while `logins` is locked.
    opening: AtomicU64,
    /// The session objects that can be made again, by slot and handle.
    copies: Mutex<HashMap<(u64, CK_OBJECT_HANDLE), Copied>>,
    /// The greatest handle of a session object so far. A new object gets a greater one, also after
    /// a restart, so that the handle of a lost object never names another one.
    last_object: AtomicU64,
    /// Changes with each call after which an `Init` function may have another outcome.
    certainty: AtomicU64,
}

/// A session, with what is read while another thread uses it.
struct Held {
    /// Its handle in the application.
    handle: CK_SESSION_HANDLE,
    slot: u64,
    /// The serial number of the token.
    serial: Vec<u8>,
    /// The agent at which the session is open.
    epoch: AtomicU64,
    session: Mutex<Session>,
}

/// A session that a call opened, with its handle at the agent.
type Opened = (Arc<Held>, u64);

struct Session {
    flags: u64,
    /// Its handle at the agent.
    handle: u64,
    /// Grows when an answer is lost, so that a late request does not meet the next operation.
    generation: u64,
    state: State,
    /// The calls that travel with the next one.
    waiting: Vec<(usize, Vec<u8>)>,
    /// The `Init` function that succeeded last, for each operation.
    certain: [Certain; 6],
    /// Whether the last signature that was to begin is a one-time password.
    signs_otp: bool,
}

/// An `Init` function that succeeded.
#[derive(Default)]
struct Certain {
    call: Vec<u8>,
    certainty: u64,
    /// What a query for the length of the signature was answered.
    signature: Option<u64>,
}

/// The position of the signature operation.
const SIGN: usize = 1;

/// Returns the position of the operation that an `Init` function starts, if it may travel later.
fn starts(function: Function) -> Option<usize> {
    match function {
        Function::C_DigestInit => Some(0),
        Function::C_SignInit => Some(SIGN),
        Function::C_VerifyInit => Some(2),
        Function::C_EncryptInit => Some(4),
        Function::C_DecryptInit => Some(5),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Application {
    /// Connects to an agent for `C_Initialize`, which was called at this time: see [`Pool::start`].
    pub fn start(
        &self,
        parameters: Option<&str>,
        single: bool,
        is_again: bool,
        called: Instant,
    ) -> Result<(), Refusal> {
        self.pool.start(parameters, single, is_again, called)
    }

    pub fn end(&self) {
        self.pool.end();
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).clear();
        lock(&self.copies).clear();
        lock(&self.logins).clear();
    }

    /// Carries a call out. `session` is its session, if the function has one.
    ///
    /// # Safety
    ///
    /// The contract of PKCS#11 for the arguments.
    pub unsafe fn call(
        &self,
        function: Function,
        session: Option<CK_SESSION_HANDLE>,
        arguments: &[&dyn Sent],
    ) -> CK_RV {
        let outcome = match session {
            // SAFETY: the caller's promise.
            None => unsafe { self.call_without_session(function, arguments) },
            // SAFETY: the caller's promise.
            Some(handle) => unsafe { self.call_in_session(function, handle, arguments) },
        };
        match outcome {
            Ok(code) => code,
            Err(_) if !self.pool.is_open() => CKR_CRYPTOKI_NOT_INITIALIZED,
            Err(code) => code,
        }
    }

    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn call_without_session(
        &self,
        function: Function,
        arguments: &[&dyn Sent],
    ) -> Result<CK_RV, Refusal> {
        // SAFETY: the caller's promise.
        let call = unsafe { read_call(function, arguments) }?;
        let start = Instant::now();
        // Sessions that end with their agent need none to be closed.
        if function == Function::C_CloseAllSessions && self.pool.take_or_leave().is_err() {
            self.close_all(&call);
            return Ok(CKR_OK);
        }
        loop {
            let mut linked = self.pool.take(start)?;
            let connection = &mut linked.connection;
            let is_open = function == Function::C_OpenSession;
            let logins = is_open.then(|| self.lock_logins()).transpose();
            let generation = if is_open { self.open_again() } else { 0 };
            let framed = begin(connection, (0, generation), 1, 0).and_then(|()| append(connection, &call));
            framed.and_then(|()| linked.finish()).map_err(refusal)?;
            let (epoch, patience) = (linked.epoch, limit(function, self.pool.patience()));
            let exchanged = logins.and_then(|logins| {
                exchange(&mut linked.connection, 1, patience).map(|answers| (logins, answers))
            });
            let (logins, outcome) = match exchanged {
                Ok((logins, answers)) => {
                    // SAFETY: the caller's promise.
                    (logins, unsafe { self.take_answer(&call, arguments, answers.first(), epoch) })
                }
                Err(lost) => {
                    linked.lost();
                    if lost.sent && changes(function) || start.elapsed() > self.pool.patience() {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    continue;
                }
            };
            let Ok((code, opened)) = outcome else {
                linked.lost();
                return Err(CKR_DEVICE_ERROR);
            };
            if let (Some((held, session)), Some(mut logins)) = (opened, logins) {
                let resumed = resume(&mut logins, &mut linked, held.slot, session);
                let is_whole = resumed.is_ok_and(|()| {
                    self.note_opened();
                    !matches!(self.reopen_owners(held.slot, &mut linked, &mut logins), Err(Some(_)))
                });
                if !is_whole {
                    // The next call opens the session again.
                    held.epoch.store(0, Ordering::Release);
                    linked.lost();
                }
            }
            return Ok(code);
        }
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

    /// Locks the logins for a call. Fails if another thread found meanwhile that no agent answers:
    /// the calls of many threads would wait for a stopped agent one after the other.
    fn lock_logins(&self) -> Result<MutexGuard<'_, HashMap<u64, Login>>, Lost> {
        let logins = lock(&self.logins);
        if self.pool.is_away() { Err(Lost::unsent()) } else { Ok(logins) }
    }

    /// Forgets the sessions of the slot that a call of `C_CloseAllSessions` names.
    fn close_all(&self, call: &Call<'_>) {
        if let [Argument::Number(slot)] = call.arguments[..] {
            lock(&self.logins).remove(&slot);
            lock(&self.copies).retain(|(at, _), _| *at != slot);
            let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
            sessions.retain(|_, held| held.slot != slot);
        }
    }

    /// Takes the results of a function without a session. Also returns a session that the call
    /// opened, with its handle at the agent.
    ///
    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn take_answer(
        &self,
        call: &Call<'_>,
        arguments: &[&dyn Sent],
        answer: Option<&Answer<'_>>,
        epoch: u64,
    ) -> Result<(CK_RV, Option<Opened>), Malformed> {
        let answer = answer.ok_or(Malformed)?;
        let mut outputs = answer.outputs.clone();
        let (handle, mut session) = (&mut [0; 8], None);
        if call.function == Function::C_OpenSession && answer.code == CKR_OK {
            let [Argument::Number(slot), Argument::Number(flags), ..] = call.arguments[..] else {
                return Err(Malformed);
            };
            let opened = outputs.first().and_then(|bytes| bytes[..].try_into().ok()).ok_or(Malformed)?;
            let opened = u64::from_ne_bytes(opened);
            let serial = answer.kept.ok_or(Malformed)?.to_vec();
            let held = self.add_session(slot, serial, flags, epoch, opened);
            *handle = held.handle.to_ne_bytes();
            outputs[0] = Bytes::new(handle);
            session = Some((held, opened));
        }
        if changes(call.function) {
            self.certainty.fetch_add(1, Ordering::AcqRel);
        }
        if call.function == Function::C_CloseAllSessions {
            self.close_all(call);
        }
        // SAFETY: the caller's promise.
        unsafe { receive(arguments, &call.arguments, answer.code, &outputs) }?;
        Ok((answer.code, session))
    }

    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn call_in_session(
        &self,
        function: Function,
        handle: CK_SESSION_HANDLE,
        arguments: &[&dyn Sent],
    ) -> Result<CK_RV, Refusal> {
        let known = self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned();
        let known = known.ok_or(CKR_SESSION_HANDLE_INVALID)?;
        let mut session = lock(&known.session);
        let signed_otp = session.signs_otp;
        let outcome = loop {
            // SAFETY: the caller's promise.
            let outcome = unsafe { self.call_once(&known, &mut session, function, arguments) };
            if outcome.is_err() || !arguments.iter().any(|argument| argument.is_unfinished()) {
                break outcome;
            }
        };
        // The operation of before goes on. After other errors the agent may have begun this one.
        if matches!(outcome, Ok(CKR_OPERATION_ACTIVE) | Err(CKR_HOST_MEMORY | CKR_DEVICE_MEMORY)) {
            session.signs_otp = signed_otp;
        }
        if outcome == Err(CKR_DEVICE_ERROR) {
            // The error ends the operations, also at an agent that goes on.
            session.state.operations = 0;
            session.waiting.clear();
            session.generation += 1;
        }
        if outcome == Err(CKR_DEVICE_ERROR) && function == Function::C_Logout {
            // The agent may have carried it out. No other agent gets the ticket.
            lock(&self.logins).remove(&known.slot);
        }
        outcome
    }

    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn call_once(
        &self,
        known: &Held,
        session: &mut Session,
        function: Function,
        arguments: &[&dyn Sent],
    ) -> Result<CK_RV, Refusal> {
        // SAFETY: the caller's promise.
        let mut call = unsafe { read_call(function, arguments) }?;
        session.note_mechanism(&call);
        // SAFETY: the caller's promise.
        match unsafe { self.call_in(known, session, &call, arguments) } {
            // The call does not fit into a message.
            Err(code @ (CKR_DEVICE_MEMORY | CKR_HOST_MEMORY)) if function.continues() => {
                call.arguments.iter_mut().for_each(Argument::spoil);
                // SAFETY: no argument is read or written.
                let outcome = unsafe { self.call_in(known, session, &call, &[]) };
                if outcome == Ok(CKR_ARGUMENTS_BAD) { Err(code) } else { outcome }
            }
            outcome => outcome,
        }
    }

    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn call_in(
        &self,
        known: &Held,
        session: &mut Session,
        call: &Call<'_>,
        arguments: &[&dyn Sent],
    ) -> Result<CK_RV, Refusal> {
        let (function, handle) = (call.function, known.handle);
        let start = Instant::now();
        let is_close = function == Function::C_CloseSession;
        if (is_close || function == Function::C_Logout) && self.pool.take_or_leave().is_err() {
            // The session and its login ended with their agent.
            self.leave(handle, known, is_close);
            return Ok(CKR_OK);
        }
        loop {
            let mut linked = self.pool.take(start)?;
            if known.epoch.load(Ordering::Acquire) != linked.epoch {
                if is_close {
                    self.leave(handle, known, true);
                    return Ok(CKR_OK);
                }
                let had_operations = session.state.operations != 0;
                match self.reopen(known, session, &mut linked) {
                    // The operations ended with their agent.
                    Ok(()) if had_operations => return Err(CKR_DEVICE_ERROR),
                    Ok(()) => {}
                    Err(Some(_)) => {
                        linked.lost();
                        if start.elapsed() > self.pool.patience() {
                            return Err(CKR_DEVICE_ERROR);
                        }
                        thread::sleep(RETRY);
                        continue;
                    }
                    Err(None) => {
                        self.leave(handle, known, true);
                        return Err(CKR_SESSION_HANDLE_INVALID);
                    }
                }
            }
            if is_close {
                // What waits would start an operation that ends at once.
                session.waiting.clear();
            }
            let connection = &mut linked.connection;
            let last = self.last_object.load(Ordering::Acquire);
            let object = if changes(function) && last != 0 { last + 1 } else { 0 };
            let at = (session.handle, session.generation);
            let framed = begin(connection, at, session.waiting.len() + 1, object);
            session.waiting.iter().for_each(|(_, waiting)| connection.frame().extend(waiting));
            let at = connection.frame().len();
            framed.and_then(|()| append(connection, call)).map_err(refusal)?;
            let encoded = &connection.frame()[at..];
            // SAFETY: the caller's promise.
            if let Some(code) = unsafe { self.answer_here(session, call, arguments, encoded) } {
                return Ok(code);
            }
            let initial =
                starts(function).map(|at_operation| (at_operation, connection.frame()[at..].to_vec()));
            linked.finish().map_err(refusal)?;
            let is_login = matches!(function, Function::C_Login | Function::C_Logout | Function::C_SetPIN);
            let logins = (is_close || is_login).then(|| self.lock_logins()).transpose();
            let (count, patience) = (session.waiting.len() + 1, limit(function, self.pool.patience()));
            let exchanged = logins.and_then(|logins| {
                exchange(&mut linked.connection, count, patience).map(|answers| (logins, answers))
            });
            let (logins, outcome) = match exchanged {
                Ok((mut logins, answers)) => {
                    // SAFETY: the caller's promise.
                    let outcome = unsafe {
                        let logins = logins.as_deref_mut();
                        self.take_session_answer(known, session, call, arguments, initial, &answers, logins)
                    };
                    (logins, outcome)
                }
                Err(lost) => {
                    linked.lost();
                    let is_there = || {
                        let linked = self.pool.take(start);
                        linked.is_ok_and(|linked| linked.epoch == known.epoch.load(Ordering::Acquire))
                    };
                    let once = || changes(function) && (!ends_with_agent(function) || is_there());
                    if lost.sent && (session.state.operations != 0 || once())
                        || start.elapsed() > self.pool.patience()
                    {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    session.generation += u64::from(lost.sent);
                    continue;
                }
            };
            // The answer of an earlier attempt may be lost.
            if is_close && let (Some(mut logins), Ok(CKR_OK | CKR_SESSION_HANDLE_INVALID)) = (logins, outcome)
            {
                self.forget(handle, known, &mut logins);
            }
            return outcome.map_err(|Malformed| {
                linked.lost();
                CKR_DEVICE_ERROR
            });
        }
    }

    /// Forgets a login, and the session if it ended.
    fn leave(&self, handle: CK_SESSION_HANDLE, held: &Held, is_session: bool) {
        let mut logins = lock(&self.logins);
        if is_session {
            self.forget(handle, held, &mut logins);
        } else {
            logins.remove(&held.slot);
        }
    }

    /// Forgets a session. The last session on a token ends the login. If it was only the last one
    /// that is open at its agent, the next one logs in again.
    fn forget(&self, handle: CK_SESSION_HANDLE, gone: &Held, logins: &mut HashMap<u64, Login>) {
        lock(&self.copies).retain(|_, copied| copied.session != handle);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.remove(&handle);
        let mut left = sessions.values().filter(|held| held.slot == gone.slot).peekable();
        if left.peek().is_none() {
            logins.remove(&gone.slot);
        } else if let Some(login) = logins.get_mut(&gone.slot)
            && left.all(|held| held.epoch.load(Ordering::Acquire) != login.epoch)
        {
            login.epoch = 0;
        }
    }

    /// Answers a call whose outcome is known: an `Init` function that succeeded before, or the
    /// length of a signature. The `Init` function waits for the next call.
    ///
    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn answer_here(
        &self,
        session: &mut Session,
        call: &Call<'_>,
        arguments: &[&dyn Sent],
        encoded: &[u8],
    ) -> Option<CK_RV> {
        let is_waiting = |operation: usize| session.waiting.iter().any(|(other, _)| *other == operation);
        if let Some(operation) = starts(call.function) {
            let certain = &session.certain[operation];
            let is_free = session.state.operations >> operation & 1 == 0 && !is_waiting(operation);
            let holds =
                certain.certainty == self.certainty.load(Ordering::Acquire) && certain.call == encoded;
            if is_free && holds && session.waiting.len() + 1 < wire::MAX_CALLS {
                session.waiting.push((operation, encoded.to_vec()));
                return Some(CKR_OK);
            }
            return None;
        }
        if call.function == Function::C_Sign && is_waiting(SIGN) {
            let len = session.certain[SIGN].signature?.to_ne_bytes();
            if let [_, Argument::Output(false, Some(_))] = call.arguments[..] {
                let outputs = [Bytes::new(&len), Bytes::new(&[])];
                // SAFETY: the caller's promise.
                unsafe { receive(arguments, &call.arguments, CKR_OK, &outputs) }.ok()?;
                return Some(CKR_OK);
            }
        }
        None
    }

    /// # Safety
    ///
    /// As for [`call`](Self::call).
    unsafe fn take_session_answer(
        &self,
        held: &Held,
        session: &mut Session,
        call: &Call<'_>,
        arguments: &[&dyn Sent],
        initial: Option<(usize, Vec<u8>)>,
        answers: &[Answer<'_>],
        logins: Option<&mut HashMap<u64, Login>>,
    ) -> Result<CK_RV, Malformed> {
        let waited = std::mem::take(&mut session.waiting);
        let answer = answers.last().ok_or(Malformed)?;
        session.state = answer.state;
        if answers.len() <= waited.len() {
            // An `Init` function failed that was certain, because another process changed the
            // token.
            let (operation, _) = &waited[answers.len() - 1];
            session.certain[*operation] = Certain::default();
            return Ok(answer.code);
        }
        let function = call.function;
        if changes(function) {
            self.certainty.fetch_add(1, Ordering::AcqRel);
        }
        if let Some((operation, encoded)) = initial
            && answer.code == CKR_OK
        {
            let certainty = self.certainty.load(Ordering::Acquire);
            session.certain[operation] = Certain { call: encoded, certainty, signature: None };
        }
        // The length of a result can depend on the buffer.
        if function == Function::C_Sign
            && let Some(Argument::Output(false, _)) = call.arguments.last()
            && answer.code == CKR_OK
            && let Some(len) = answer.outputs.first().and_then(|len| len[..].try_into().ok())
        {
            session.certain[SIGN].signature = Some(u64::from_ne_bytes(len));
        }
        if let Some(logins) = logins {
            note_login(logins, held, function, answer);
        }
        if changes(function) {
            let numbers = answer.outputs.iter().filter_map(|output| output[..].try_into().ok());
            let handles = numbers.map(u64::from_ne_bytes).filter(|handle| handle & STORED == 0);
            self.last_object
                .fetch_max(handles.map(|handle| handle & NUMBER).max().unwrap_or(0), Ordering::AcqRel);
        }
        self.note_copy(held, call, answer);
        let mut outputs = answer.outputs.clone();
        let mut block;
        // This module knows where pointers belong, whatever the agent says.
        if session.signs_otp
            && matches!(function, Function::C_Sign | Function::C_SignFinal)
            && let Some(buffer) = arguments.last().and_then(|argument| argument.buffer())
            && let [_, given] = &mut outputs[..]
            && !given.is_empty()
        {
            block = given.to_vec();
            otp::move_pointers(&mut block, 0, buffer.expose_provenance() as u64).ok_or(Malformed)?;
            *given = Bytes::new(&block);
        }
        // SAFETY: the caller's promise.
        unsafe { receive(arguments, &call.arguments, answer.code, &outputs) }?;
        Ok(answer.code)
    }

    fn add_session(&self, slot: u64, serial: Vec<u8>, flags: u64, epoch: u64, handle: u64) -> Arc<Held> {
        let new = self.last_session.fetch_add(1, Ordering::Relaxed) + 1;
        let (generation, state, waiting, certain, signs_otp) = Default::default();
        let session = Session { flags, handle, generation, state, waiting, certain, signs_otp };
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let (epoch, session) = (AtomicU64::new(epoch), Mutex::new(session));
        let held = Arc::new(Held { handle: new, slot, serial, epoch, session });
        sessions.insert(new, Arc::clone(&held));
        held
    }
}

/// Reads the arguments of a call.
///
/// # Safety
///
/// The contract of PKCS#11 for the arguments.
unsafe fn read_call<'a>(function: Function, arguments: &'a [&'a dyn Sent]) -> Result<Call<'a>, Refusal> {
    // SAFETY: the caller's promise.
    let read: Result<_, _> = arguments.iter().map(|one| unsafe { one.argument() }).collect();
    Ok(Call { function, arguments: read.map_err(refusal)? })
}

/// Gives each argument what the function wrote for it.
///
/// # Safety
///
/// The contract of PKCS#11 for the arguments.
unsafe fn receive(
    arguments: &[&dyn Sent],
    sent: &[Argument<'_>],
    code: CK_RV,
    outputs: &[&Bytes],
) -> Result<(), Malformed> {
    // A call without outputs was refused by a rule of the agent.
    if !wire::writes(code) || code != CKR_OK && outputs.is_empty() {
        return Ok(());
    }
    let mut results = Results::new(code, outputs);
    for (argument, sent) in arguments.iter().zip(sent) {
        // SAFETY: the caller's promise.
        unsafe { argument.receive(sent, &mut results) }?;
    }
    // SAFETY: the arguments noted places that the application passed, for their lengths.
    unsafe { results.write() }
}

impl Session {
    /// Notes whether a signature that begins is a one-time password. The agent may begin it and say
    /// that it did not.
    fn note_mechanism(&mut self, call: &Call<'_>) {
        if let (Function::C_SignInit, [Argument::Mechanism(Some(mechanism), _), ..]) =
            (call.function, &call.arguments[..])
        {
            self.signs_otp = mechanism::parameter(*mechanism, None) == Parameter::Otp;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.waiting.iter_mut().for_each(|(_, call)| wipe(call));
    }
}
