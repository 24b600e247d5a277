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
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton_agent_wire::channel::wipe;
use jeton_agent_wire::image::Outputs;
use jeton_agent_wire::{
    self as wire, Answer, Argument, Call, Function, Malformed, Reply, Request, State, Unfit, otp,
};
use serde_bytes::Bytes;

use crate::connection::{Connection, Lost};
use crate::pool::{Linked, Pool, Refusal};
use crate::sent::Sent;

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
    /// The session objects that can be made again, by slot and handle.
    copies: Mutex<HashMap<(u64, CK_OBJECT_HANDLE), Copied>>,
    /// Changes with each call after which an `Init` function may have another outcome.
    certainty: AtomicU64,
}

/// A session object that is a copy of a token object, and was not changed. OpenSSL's provider signs
/// with such a copy and keeps its handle, so it is made again at another agent.
struct Copied {
    /// The session that it belongs to.
    session: CK_SESSION_HANDLE,
    /// The call of `C_CopyObject` that made it.
    call: Vec<u8>,
}

/// The bit of the handle of a token object.
const STORED: CK_OBJECT_HANDLE = 1 << 60;

/// A login.
struct Login {
    /// What logs in again at another agent.
    ticket: Vec<u8>,
    /// The agent that knows of the login.
    epoch: u64,
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

/// A session of the application.
struct Session {
    flags: u64,
    /// Its handle at the agent.
    handle: u64,
    state: State,
    /// The calls that travel with the next one.
    waiting: Vec<(usize, Vec<u8>)>,
    /// The `Init` function that succeeded last, for each operation.
    certain: [Certain; 6],
}

/// An `Init` function that succeeded.
#[derive(Default)]
struct Certain {
    call: Vec<u8>,
    certainty: u64,
    /// The length of its signatures.
    signature: Option<u64>,
}

/// The operations that `C_SessionCancel` ends: all that there are.
const OPERATIONS: CK_FLAGS = CKF_ENCRYPT
    | CKF_DECRYPT
    | CKF_DIGEST
    | CKF_SIGN
    | CKF_SIGN_RECOVER
    | CKF_VERIFY
    | CKF_VERIFY_RECOVER
    | CKF_MESSAGE_ENCRYPT
    | CKF_MESSAGE_DECRYPT
    | CKF_MESSAGE_SIGN
    | CKF_MESSAGE_VERIFY
    | CKF_FIND_OBJECTS;

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

/// Returns whether a call changes objects, logins or the token, so that it must not be carried out
/// twice, and no later outcome is certain.
fn changes(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::C_InitToken
            | F::C_InitPIN
            | F::C_SetPIN
            | F::C_Login
            | F::C_LoginUser
            | F::C_Logout
            | F::C_CreateObject
            | F::C_CopyObject
            | F::C_DestroyObject
            | F::C_SetAttributeValue
            | F::C_GenerateKey
            | F::C_GenerateKeyPair
            | F::C_UnwrapKey
            | F::C_UnwrapKeyAuthenticated
            | F::C_DeriveKey
            | F::C_EncapsulateKey
            | F::C_DecapsulateKey
            | F::C_SetOperationState
            | F::C_CloseAllSessions
            | F::C_AsyncComplete
            | F::C_AsyncJoin
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Application {
    /// Connects to an agent. `single` says that the module may create no threads, and `is_again`
    /// that the parent of this process was an application.
    pub fn start(&self, parameters: Option<&str>, single: bool, is_again: bool) -> Result<(), Refusal> {
        self.pool.start(parameters, single, is_again)
    }

    /// Ends the application.
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
        if function == Function::C_CloseAllSessions && self.pool.take_now().is_err() {
            self.close_all(&call);
            return Ok(CKR_OK);
        }
        loop {
            let mut linked = self.pool.take(start)?;
            let connection = &mut linked.connection;
            let framed = begin(connection, 0, 1).and_then(|()| append(connection, &call));
            framed.and_then(|()| linked.finish()).map_err(refusal)?;
            let logins = (function == Function::C_OpenSession).then(|| lock(&self.logins));
            let epoch = linked.epoch;
            let outcome = match exchange(&mut linked.connection, limit(function, self.pool.patience())) {
                Ok(answers) => {
                    // SAFETY: the caller's promise.
                    unsafe { self.take_answer(&call, arguments, answers.first(), epoch) }
                }
                Err(lost) => {
                    linked.lost();
                    if lost.sent && changes(function) || start.elapsed() > self.pool.patience() {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    continue;
                }
            };
            let (code, opened) = outcome.map_err(|Malformed| CKR_DEVICE_ERROR)?;
            if let (Some((slot, session)), Some(mut logins)) = (opened, logins)
                && (resume(&mut logins, &mut linked, slot, session).is_err()
                    || matches!(self.reopen_owners(slot, &mut linked, &mut logins), Err(Some(_))))
            {
                // The next call opens the session at another agent.
                linked.lost();
            }
            return Ok(code);
        }
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

    /// Takes the results of a function without a session. Also returns the slot and the agent's
    /// handle of a session that the call opened.
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
    ) -> Result<(CK_RV, Option<(u64, u64)>), Malformed> {
        let answer = answer.ok_or(Malformed)?;
        let mut outputs = answer.outputs.clone();
        let (handle, mut session) = (&mut [0; 8], None);
        if call.function == Function::C_OpenSession && answer.code == CKR_OK {
            let [Argument::Number(slot), Argument::Number(flags), ..] = call.arguments[..] else {
                return Err(Malformed);
            };
            let opened = outputs.first().and_then(|bytes| bytes[..].try_into().ok()).ok_or(Malformed)?;
            let opened = u64::from_ne_bytes(opened);
            session = Some((slot, opened));
            let serial = answer.kept.ok_or(Malformed)?.to_vec();
            *handle = self.add_session(slot, serial, flags, epoch, opened).to_ne_bytes();
            outputs[0] = Bytes::new(handle);
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
        // SAFETY: the caller's promise.
        let call = unsafe { read_call(function, arguments) }?;
        let mut session = lock(&known.session);
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.call_in(&known, &mut session, &call, arguments) };
        if outcome == Err(CKR_DEVICE_ERROR) {
            // The error ends the operations. Otherwise a later call would report their end again.
            session.state.operations = 0;
            session.waiting.clear();
        }
        outcome
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
        if (is_close || function == Function::C_Logout) && self.pool.take_now().is_err() {
            // The session and its login ended with their agent.
            self.leave(handle, known, is_close);
            return Ok(CKR_OK);
        }
        let mut has_cancelled = false;
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
            let framed = begin(connection, session.handle, session.waiting.len() + 1);
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
            let is_login = matches!(function, Function::C_Login | Function::C_Logout);
            let mut logins = (is_close || is_login).then(|| lock(&self.logins));
            let had_operations = session.state.operations != 0;
            let outcome = match exchange(&mut linked.connection, limit(function, self.pool.patience())) {
                Ok(answers) => {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let logins = logins.as_deref_mut();
                        self.take_session_answer(known, session, call, arguments, initial, &answers, logins)
                    }
                }
                Err(lost) => {
                    linked.lost();
                    let once = changes(function) || session.state.operations != 0;
                    if lost.sent && (once || !self.is_clear(known, session, start))
                        || start.elapsed() > self.pool.patience()
                    {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    continue;
                }
            };
            if has_cancelled || had_operations {
                session.waiting.clear();
            } else if outcome == Ok(CKR_OPERATION_ACTIVE) {
                // A call whose answer was lost came to the agent after all, and started one.
                has_cancelled = true;
                drop((linked, logins));
                if self.is_clear(known, session, start) {
                    session.state.operations = 0;
                    continue;
                }
                return Err(CKR_DEVICE_ERROR);
            }
            if is_close && let (Some(mut logins), Ok(CKR_OK)) = (logins, outcome) {
                self.forget(handle, known, &mut logins);
            }
            return outcome.map_err(|Malformed| CKR_DEVICE_ERROR);
        }
    }

    /// Cancels the operations of a session that had none before a call whose answer was lost. The
    /// call may have started one. Returns whether the call may be sent again.
    fn is_clear(&self, held: &Held, session: &Session, start: Instant) -> bool {
        let Ok(mut linked) = self.pool.take(start) else { return false };
        if held.epoch.load(Ordering::Acquire) != linked.epoch {
            return true;
        }
        let call =
            Call { function: Function::C_SessionCancel, arguments: vec![Argument::Number(OPERATIONS)] };
        let connection = &mut linked.connection;
        let framed = begin(connection, session.handle, 1).and_then(|()| append(connection, &call));
        if framed.and_then(|()| linked.finish()).is_err() {
            return false;
        }
        let patience = Some(self.pool.patience());
        let outcome = exchange(&mut linked.connection, patience)
            .map(|answers| answers.first().map(|answer| answer.code));
        match outcome {
            Ok(code) => code == Some(CKR_OK),
            Err(_) => {
                linked.lost();
                // The next connection shows whether the agent has ended.
                true
            }
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
            if answer.code == CKR_OPERATION_ACTIVE {
                session.waiting = waited;
            }
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
        if function == Function::C_Sign
            && answer.code == CKR_OK
            && let Some(len) = answer.outputs.first().and_then(|len| len[..].try_into().ok())
        {
            session.certain[SIGN].signature = Some(u64::from_ne_bytes(len));
        }
        if let Some(logins) = logins {
            note_login(logins, held, function, answer);
        }
        self.note_copy(held, call, answer);
        let mut outputs = answer.outputs.clone();
        let mut block;
        if answer.otp
            && let Some(buffer) = arguments.last().and_then(|argument| argument.buffer())
            && let [_, given] = &mut outputs[..]
        {
            block = given.to_vec();
            otp::move_pointers(&mut block, 0, buffer.expose_provenance() as u64);
            *given = Bytes::new(&block);
        }
        // SAFETY: the caller's promise.
        unsafe { receive(arguments, &call.arguments, answer.code, &outputs) }?;
        Ok(answer.code)
    }

    /// Keeps what makes a copy of a token object again, until it is changed or destroyed.
    fn note_copy(&self, held: &Held, call: &Call<'_>, answer: &Answer<'_>) {
        let copies = || lock(&self.copies);
        match (call.function, &call.arguments[..], &answer.outputs[..]) {
            _ if answer.code != CKR_OK => {}
            (Function::C_CopyObject, [Argument::Number(source), ..], [handle]) if source & STORED != 0 => {
                let handle = handle[..].try_into().map_or(STORED, u64::from_ne_bytes);
                let mut encoded = Vec::new();
                if handle & STORED == 0 && wire::append(call, &mut encoded).is_ok() {
                    copies().insert((held.slot, handle), Copied { session: held.handle, call: encoded });
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

    /// Makes the copies of a session again. Fails with `None` if one cannot be made.
    fn copy_again(&self, held: &Held, session: u64, linked: &mut Linked<'_>) -> Result<(), Option<Lost>> {
        let copies: Vec<_> = {
            let all = lock(&self.copies);
            let of_session = all.iter().filter(|(_, copied)| copied.session == held.handle);
            of_session.map(|((_, handle), copied)| (*handle, copied.call.clone())).collect()
        };
        for (object, call) in copies {
            let connection = &mut linked.connection;
            begin_with(connection, session, 1, object).map_err(|_| None)?;
            connection.frame().extend(&call);
            wire::finish(connection.frame()).map_err(|_| None)?;
            let answers = exchange(connection, Some(self.pool.patience())).map_err(Some)?;
            let answer = answers.first().filter(|answer| answer.code == CKR_OK).ok_or(None)?;
            if answer.outputs.first().map(|handle| &handle[..]) != Some(&object.to_ne_bytes()[..]) {
                return Err(None);
            }
        }
        Ok(())
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

    /// Opens a session again at another agent. Fails with `None` if it had something that is lost.
    fn reopen(&self, held: &Held, session: &mut Session, linked: &mut Linked) -> Result<(), Option<Lost>> {
        if !self.has_only_copies(held.slot, session.state.objects) {
            return Err(None);
        }
        let mut logins = lock(&self.logins);
        self.reopen_alone(held, session, linked, &mut logins)?;
        self.reopen_owners(held.slot, linked, &mut logins)
    }

    /// Opens the sessions that have copies at another agent, because a call may use a copy of
    /// another session. A session that another thread uses is opened by that thread.
    fn reopen_owners(
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
        let connection = &mut linked.connection;
        let arguments = vec![
            Argument::Number(held.slot),
            Argument::Number(session.flags),
            Argument::Pointer(false),
            Argument::Pointer(false),
            Argument::Pointer(true),
        ];
        let opened = {
            begin(connection, 0, 1).map_err(|_| None)?;
            append(connection, &Call { function: Function::C_OpenSession, arguments }).map_err(|_| None)?;
            wire::finish(connection.frame()).map_err(|_| None)?;
            let answers = exchange(connection, Some(self.pool.patience())).map_err(Some)?;
            let answer = answers.first().filter(|answer| answer.code == CKR_OK).ok_or(None)?;
            // The other agent may have another token in this slot.
            answer.kept.filter(|serial| serial[..] == held.serial).ok_or(None)?;
            let bytes = answer.outputs.first().and_then(|bytes| bytes[..].try_into().ok());
            u64::from_ne_bytes(bytes.ok_or(None)?)
        };
        resume(logins, linked, held.slot, opened).map_err(Some)?;
        self.copy_again(held, opened, linked)?;
        // While the logins are locked: a close in another thread sees which sessions are open.
        held.epoch.store(linked.epoch, Ordering::Release);
        session.handle = opened;
        Ok(())
    }

    fn add_session(
        &self,
        slot: u64,
        serial: Vec<u8>,
        flags: u64,
        epoch: u64,
        handle: u64,
    ) -> CK_SESSION_HANDLE {
        let new = self.last_session.fetch_add(1, Ordering::Relaxed) + 1;
        let (state, waiting, certain) = Default::default();
        let session = Session { flags, handle, state, waiting, certain };
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let held =
            Held { handle: new, slot, serial, epoch: AtomicU64::new(epoch), session: Mutex::new(session) };
        sessions.insert(new, Arc::new(held));
        new
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

fn refusal(unfit: Unfit) -> Refusal {
    match unfit {
        Unfit::TooLong => CKR_DEVICE_MEMORY,
        Unfit::NoMemory => CKR_HOST_MEMORY,
    }
}

/// Starts a request with calls.
fn begin(connection: &mut Connection, session: u64, count: usize) -> Result<(), Unfit> {
    begin_with(connection, session, count, 0)
}

/// The same for a call that makes the session object with this handle again.
fn begin_with(connection: &mut Connection, session: u64, count: usize, object: u64) -> Result<(), Unfit> {
    let number = connection.number.wrapping_add(1);
    wire::start(connection.frame());
    append(connection, &Request::Calls { session, count: count as u8, object, number })
}

fn append(connection: &mut Connection, value: &impl serde::Serialize) -> Result<(), Unfit> {
    wire::append(value, connection.frame())
}

/// Returns how long a call waits for its answer while the agent lives; `None` if the function may
/// compute or wait for longer.
fn limit(function: Function, patience: Duration) -> Option<Duration> {
    use Function as F;
    let is_long = matches!(
        function,
        F::C_WaitForSlotEvent
            | F::C_InitToken
            | F::C_GenerateKey
            | F::C_GenerateKeyPair
            | F::C_DeriveKey
            | F::C_UnwrapKey
            | F::C_UnwrapKeyAuthenticated
            | F::C_AsyncComplete
    );
    (!is_long).then_some(patience)
}

/// Sends a request with calls. Returns the answers, for which it waits for at most the time
/// `patience`, if there is one.
fn exchange(connection: &mut Connection, patience: Option<Duration>) -> Result<Vec<Answer<'_>>, Lost> {
    let malformed = || Lost { sent: true, error: std::io::ErrorKind::InvalidData.into() };
    connection.number = connection.number.wrapping_add(1);
    let number = connection.number;
    let mut rest = connection.exchange(patience)?;
    let mut answers = Vec::new();
    match wire::take(&mut rest) {
        Ok(Reply::Answers(of)) if of == number => {}
        _ => return Err(malformed()),
    }
    while !rest.is_empty() {
        answers.push(wire::take(&mut rest).map_err(|Malformed| malformed())?);
    }
    Ok(answers)
}

/// Keeps the ticket of a login until the logout.
fn note_login(logins: &mut HashMap<u64, Login>, held: &Held, function: Function, answer: &Answer<'_>) {
    if answer.code != CKR_OK {
        return;
    }
    if let (Function::C_Login, Some(ticket)) = (function, answer.kept) {
        let login = Login { ticket: ticket.to_vec(), epoch: held.epoch.load(Ordering::Acquire) };
        logins.insert(held.slot, login);
    } else if function == Function::C_Logout {
        logins.remove(&held.slot);
    }
}

/// Logs in at an agent that does not know of the login yet. If the agent refuses the ticket, the
/// next call fails with the code that says so.
fn resume(
    logins: &mut HashMap<u64, Login>,
    linked: &mut Linked<'_>,
    slot: u64,
    session: u64,
) -> Result<(), Lost> {
    let epoch = linked.epoch;
    let Some(login) = logins.get_mut(&slot).filter(|login| login.epoch != epoch) else { return Ok(()) };
    linked.connection.ask(&Request::Resume { session, ticket: Bytes::new(&login.ticket) })?;
    login.epoch = epoch;
    Ok(())
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
    // A rule of the agent refused the call.
    if code != CKR_OK && outputs.is_empty() {
        return Ok(());
    }
    let mut rest = outputs.iter();
    for (argument, sent) in arguments.iter().zip(sent) {
        // SAFETY: the caller's promise.
        unsafe { argument.receive(sent, code, &mut Outputs(&mut rest)) }?;
    }
    Ok(())
}

impl Drop for Session {
    fn drop(&mut self) {
        self.waiting.iter_mut().for_each(|(_, call)| wipe(call));
    }
}
