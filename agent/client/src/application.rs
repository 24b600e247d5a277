//! The application of this process: its connections to the agent, its sessions, and what it does
//! when the agent ended and is back.
//!
//! A call is one message and one answer. An `Init` function whose outcome is certain is not sent:
//! it travels with the next call of its session. It is certain if the same function with the same
//! arguments succeeded in this session before, and this application has changed no object and no
//! login since.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton_agent_wire::channel::wipe;
use jeton_agent_wire::image::Outputs;
use jeton_agent_wire::{
    self as protocol, Answer, Application as Name, Argument, Call, Function, Malformed, Reply, Request,
    State, Unfit, otp,
};
use serde_bytes::Bytes;

use crate::connection::{Address, Connection, Lost};
use crate::sent::Sent;

/// How long a call waits for an agent that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Connections that are kept for the next call. More are closed after their call.
const KEPT: usize = 64;

/// A code that is not `CKR_OK`.
type Refusal = CK_RV;

/// The application between `C_Initialize` and `C_Finalize`.
#[derive(Default)]
pub struct Application {
    link: Mutex<Link>,
    idle: Mutex<Vec<Linked>>,
    sessions: RwLock<HashMap<CK_SESSION_HANDLE, Arc<Held>>>,
    last_session: AtomicU64,
    /// The logins of the application, by slot.
    logins: Mutex<HashMap<u64, Login>>,
    /// Changes with each call after which an `Init` function may have another outcome.
    certainty: AtomicU64,
    open: AtomicBool,
}

/// What the agent knows the application by.
#[derive(Default)]
struct Link {
    addresses: Vec<Address>,
    /// The position of the agent that answered last.
    at: usize,
    name: Option<Name>,
    /// Counts the agents. A session belongs to one of them.
    epoch: u64,
    /// The greatest length of a message that the agent takes.
    longest: u64,
    single: bool,
}

/// A connection to an agent.
struct Linked {
    connection: Connection,
    epoch: u64,
    longest: u64,
}

/// A login.
struct Login {
    /// What logs in again at another agent.
    ticket: Vec<u8>,
    /// The agent that knows of the login.
    epoch: u64,
}

/// A session, with what is read while another thread uses it.
struct Held {
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
    /// Connects to an agent. `single` says that the module may create no threads.
    pub fn start(&self, parameters: Option<&str>, single: bool) -> Result<(), Refusal> {
        let addresses = Address::all(parameters).map_err(|error| refuse(&error))?;
        let mut link = lock(&self.link);
        *link = Link { addresses, single, epoch: link.epoch, ..Link::default() };
        drop(link);
        let linked = self.connect(Instant::now())?;
        self.open.store(true, Ordering::Release);
        self.put_back(linked);
        Ok(())
    }

    /// Ends the application.
    pub fn end(&self) {
        self.open.store(false, Ordering::Release);
        if let Ok(mut linked) = self.take() {
            let _ = ask(&mut linked.connection, &Request::End);
        }
        lock(&self.link).name = None;
        lock(&self.idle).clear();
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).clear();
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
            Err(_) if !self.open.load(Ordering::Acquire) => CKR_CRYPTOKI_NOT_INITIALIZED,
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
        loop {
            let mut linked = self.take()?;
            let epoch = linked.epoch;
            let connection = &mut linked.connection;
            let framed = begin(connection, 0, 1).and_then(|()| append(connection, &call));
            if let Err(unfit) = framed.and_then(|()| linked.finish()) {
                self.put_back(linked);
                return Err(refusal(unfit));
            }
            let connection = &mut linked.connection;
            let outcome = match exchange(connection) {
                Ok(answers) => {
                    // SAFETY: the caller's promise.
                    unsafe { self.take_answer(&call, arguments, answers.first(), epoch) }
                }
                Err(lost) => {
                    self.lost(linked);
                    if lost.sent && changes(function) || start.elapsed() > PATIENCE {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    continue;
                }
            };
            let Ok((code, opened)) = outcome else { return Err(CKR_DEVICE_ERROR) };
            if let Some((slot, session)) = opened
                && self.resume(&mut linked, slot, session).is_err()
            {
                // The next call opens the session at another agent.
                return Ok(code);
            }
            self.put_back(linked);
            return Ok(code);
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
        if call.function == Function::C_CloseAllSessions
            && let [Argument::Number(slot)] = call.arguments[..]
        {
            let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
            sessions.retain(|_, held| held.slot != slot);
            drop(sessions);
            lock(&self.logins).remove(&slot);
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
        let start = Instant::now();
        loop {
            let mut linked = self.take()?;
            if known.epoch.load(Ordering::Acquire) != linked.epoch {
                if function == Function::C_CloseSession {
                    // It ended with its agent.
                    self.put_back(linked);
                    drop(session);
                    self.remove_session(handle, &known);
                    return Ok(CKR_OK);
                }
                match self.reopen(&known, &mut session, &mut linked) {
                    Ok(()) => known.epoch.store(linked.epoch, Ordering::Release),
                    Err(Some(_)) => {
                        self.lost(linked);
                        if start.elapsed() > PATIENCE {
                            return Err(CKR_DEVICE_ERROR);
                        }
                        continue;
                    }
                    Err(None) => {
                        self.put_back(linked);
                        drop(session);
                        self.remove_session(handle, &known);
                        return Err(CKR_SESSION_HANDLE_INVALID);
                    }
                }
            }
            let connection = &mut linked.connection;
            let framed = begin(connection, session.handle, session.waiting.len() + 1);
            for (_, waiting) in &session.waiting {
                connection.frame().extend(waiting);
            }
            let at = connection.frame().len();
            if let Err(unfit) = framed.and_then(|()| append(connection, &call)) {
                self.put_back(linked);
                return Err(refusal(unfit));
            }
            let encoded = &connection.frame()[at..];
            // SAFETY: the caller's promise.
            let here = unsafe { self.answer_here(&mut session, &call, arguments, encoded) };
            if let Some(code) = here {
                self.put_back(linked);
                return Ok(code);
            }
            let initial =
                starts(function).map(|at_operation| (at_operation, connection.frame()[at..].to_vec()));
            if let Err(unfit) = linked.finish() {
                self.put_back(linked);
                return Err(refusal(unfit));
            }
            let outcome = match exchange(&mut linked.connection) {
                Ok(answers) => {
                    // SAFETY: the caller's promise.
                    unsafe {
                        self.take_session_answer(&known, &mut session, &call, arguments, initial, &answers)
                    }
                }
                Err(lost) => {
                    self.lost(linked);
                    let once = changes(function) || session.state != State::default();
                    if lost.sent && once || start.elapsed() > PATIENCE {
                        return Err(CKR_DEVICE_ERROR);
                    }
                    continue;
                }
            };
            self.put_back(linked);
            if function == Function::C_CloseSession && outcome == Ok(CKR_OK) {
                drop(session);
                self.remove_session(handle, &known);
            }
            return outcome.map_err(|Malformed| CKR_DEVICE_ERROR);
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
            if is_free && holds && session.waiting.len() + 1 < protocol::MAX_CALLS {
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
        if function == Function::C_Sign
            && answer.code == CKR_OK
            && let Some(len) = answer.outputs.first().and_then(|len| len[..].try_into().ok())
        {
            session.certain[SIGN].signature = Some(u64::from_ne_bytes(len));
        }
        self.note_login(held, function, answer);
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

    /// Keeps the ticket of a login until the logout.
    fn note_login(&self, held: &Held, function: Function, answer: &Answer<'_>) {
        if answer.code != CKR_OK {
            return;
        }
        if let (Function::C_Login, Some(ticket)) = (function, answer.kept) {
            let login = Login { ticket: ticket.to_vec(), epoch: held.epoch.load(Ordering::Acquire) };
            lock(&self.logins).insert(held.slot, login);
        } else if function == Function::C_Logout {
            lock(&self.logins).remove(&held.slot);
        }
    }

    /// Forgets a session. The last session on a token ends the login. If it was only the last one
    /// that is open at its agent, the next one logs in again.
    fn remove_session(&self, handle: CK_SESSION_HANDLE, gone: &Held) {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.remove(&handle);
        let mut left = sessions.values().filter(|held| held.slot == gone.slot).peekable();
        let mut logins = lock(&self.logins);
        if left.peek().is_none() {
            logins.remove(&gone.slot);
        } else if let Some(login) = logins.get_mut(&gone.slot)
            && left.all(|held| held.epoch.load(Ordering::Acquire) != login.epoch)
        {
            login.epoch = 0;
        }
    }

    /// Logs in at an agent that does not know of the login yet. If the agent refuses the ticket,
    /// the next call fails with the code that says so.
    fn resume(&self, linked: &mut Linked, slot: u64, session: u64) -> Result<(), Lost> {
        let mut logins = lock(&self.logins);
        let Some(login) = logins.get_mut(&slot).filter(|login| login.epoch != linked.epoch) else {
            return Ok(());
        };
        // Other sessions wait here, so that none of them calls before the login.
        ask(&mut linked.connection, &Request::Resume { session, ticket: Bytes::new(&login.ticket) })?;
        login.epoch = linked.epoch;
        Ok(())
    }

    /// Opens a session again at another agent. Fails with `None` if it had something that is lost.
    fn reopen(&self, held: &Held, session: &mut Session, linked: &mut Linked) -> Result<(), Option<Lost>> {
        if session.state != State::default() {
            return Err(None);
        }
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
            protocol::finish(connection.frame()).map_err(|_| None)?;
            let answers = exchange(connection).map_err(Some)?;
            let answer = answers.first().filter(|answer| answer.code == CKR_OK).ok_or(None)?;
            // The other agent may have another token in this slot.
            answer.kept.filter(|serial| serial[..] == held.serial).ok_or(None)?;
            let bytes = answer.outputs.first().and_then(|bytes| bytes[..].try_into().ok());
            u64::from_ne_bytes(bytes.ok_or(None)?)
        };
        self.resume(linked, held.slot, opened).map_err(Some)?;
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
        let held = Held { slot, serial, epoch: AtomicU64::new(epoch), session: Mutex::new(session) };
        sessions.insert(new, Arc::new(held));
        new
    }

    /// Returns a connection that no other call uses.
    fn take(&self) -> Result<Linked, Refusal> {
        let start = Instant::now();
        let epoch = lock(&self.link).epoch;
        while let Some(linked) = { lock(&self.idle).pop() } {
            if linked.epoch == epoch && !linked.connection.is_dead() {
                return Ok(linked);
            }
        }
        self.connect(start)
    }

    fn put_back(&self, mut linked: Linked) {
        linked.connection.wipe();
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT && self.open.load(Ordering::Acquire) {
            idle.push(linked);
        }
    }

    /// Drops a connection that failed, and those that wait: the agent has ended.
    fn lost(&self, linked: Linked) {
        drop(linked);
        lock(&self.idle).clear();
    }

    /// Connects to an agent, the one that answered last first, and joins the application there. If
    /// the agent does not know the application, a new one begins.
    fn connect(&self, start: Instant) -> Result<Linked, Refusal> {
        let mut link = lock(&self.link);
        let mut last = "no address".to_owned();
        loop {
            for _ in 0..link.addresses.len() {
                let address = link.addresses[link.at].clone();
                match self.link_to(&mut link, &address) {
                    Ok(linked) => return Ok(linked),
                    Err(Failure::Refused(reason)) => return Err(refuse(&reason)),
                    Err(Failure::Lost(error)) => last = format!("{address:?}: {error}"),
                }
                link.at = (link.at + 1) % link.addresses.len();
            }
            // `C_Initialize` does not wait, so that a missing agent shows at once.
            if start.elapsed() > PATIENCE || !self.open.load(Ordering::Acquire) {
                return Err(refuse(&last));
            }
            drop(link);
            thread::sleep(RETRY);
            link = lock(&self.link);
        }
    }

    fn link_to(&self, link: &mut Link, address: &Address) -> Result<Linked, Failure> {
        let mut connection = Connection::open(address).map_err(|error| Failure::Lost(error.to_string()))?;
        let version = protocol::VERSION;
        if let Some(application) = link.name {
            let request = Request::Join { version, application };
            match ask(&mut connection, &request).map_err(|lost| Failure::Lost(lost.error.to_string()))? {
                Reply::Started { .. } => return Ok(link.linked(connection)),
                Reply::Refused(reason) => return Err(Failure::Refused(reason.to_owned())),
                _ => {}
            }
            // The agent has ended, or is another one.
            link.name = None;
            connection = Connection::open(address).map_err(|error| Failure::Lost(error.to_string()))?;
        }
        let request = Request::Start { version, single: link.single };
        match ask(&mut connection, &request).map_err(|lost| Failure::Lost(lost.error.to_string()))? {
            Reply::Started { application, longest, .. } => {
                link.name = Some(application);
                link.epoch += 1;
                link.longest = longest;
                Ok(link.linked(connection))
            }
            Reply::Refused(reason) => Err(Failure::Refused(reason.to_owned())),
            _ => Err(Failure::Lost("an answer of another protocol".to_owned())),
        }
    }
}

impl Link {
    fn linked(&self, connection: Connection) -> Linked {
        Linked { connection, epoch: self.epoch, longest: self.longest }
    }
}

enum Failure {
    Refused(String),
    Lost(String),
}

/// Says on standard error why there is no agent: the code of `C_Initialize` does not.
fn refuse(reason: &str) -> Refusal {
    eprintln!("libjeton_client: no agent: {reason}");
    CKR_GENERAL_ERROR
}

impl Linked {
    /// Ends the frame. Fails if the agent takes no message of this length.
    fn finish(&mut self) -> Result<(), Unfit> {
        let frame = self.connection.frame();
        if frame.len() as u64 > self.longest {
            return Err(Unfit::TooLong);
        }
        protocol::finish(frame)
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
    protocol::start(connection.frame());
    append(connection, &Request::Calls { session, count: count as u8 })
}

fn append(connection: &mut Connection, value: &impl serde::Serialize) -> Result<(), Unfit> {
    protocol::append(value, connection.frame())
}

/// Sends a request with calls. Returns the answers.
fn exchange(connection: &mut Connection) -> Result<Vec<Answer<'_>>, Lost> {
    let malformed = || Lost { sent: true, error: std::io::ErrorKind::InvalidData.into() };
    let mut rest = connection.exchange()?;
    let mut answers = Vec::new();
    match protocol::take(&mut rest) {
        Ok(Reply::Answers) => {}
        _ => return Err(malformed()),
    }
    while !rest.is_empty() {
        answers.push(protocol::take(&mut rest).map_err(|Malformed| malformed())?);
    }
    Ok(answers)
}

/// Sends a request. Returns the reply.
fn ask<'a>(connection: &'a mut Connection, request: &Request<'_>) -> Result<Reply<'a>, Lost> {
    let malformed = |Malformed| Lost { sent: true, error: std::io::ErrorKind::InvalidData.into() };
    protocol::encode(request, connection.frame()).map_err(|unfit| malformed(unfit.into()))?;
    protocol::decode(connection.exchange()?).map_err(malformed)
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
