//! Connections and the applications that they belong to. Each connection has a thread.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton::error::Error;
use jeton::id::{SessionHandle, SlotId};
use jeton::module::{Module, Threads, User};
use jeton::token::Identity;
use jeton_agent_wire::argument::{Input, Parameters};
use jeton_agent_wire::channel::{Channel, KEPT, Room, Taken};
use jeton_agent_wire::status::OfClient;
use jeton_agent_wire::wait::Stream;
use jeton_agent_wire::{
    self as protocol, Answer, Application as Name, Argument, Call, Function, Malformed, Parameter, Reply,
    Request, State, Status, otp,
};
use serde_bytes::Bytes;
use tracing::{info, warn};

use crate::dispatch::carry_out;
use crate::figures::{Figures, Latencies};
use crate::parameters::{self, Known};
use crate::peer::Peer;
use crate::rules::{self, Pace, Rule, Rules};
use crate::ticket::{Holder, Login, Tickets};
use crate::tls::{self, Gate};

/// The stack of a connection's thread. ML-DSA of AWS-LC needs the most.
const STACK: usize = 512 * 1024;
/// The most connections at the same time.
const MOST_CONNECTIONS: usize = 16_384;
/// The most connections of one peer.
const MOST_OF_PEER: usize = 4096;
/// The memory in bytes of the long messages of one peer, if no rule says another number.
const MEMORY: usize = 512 << 20;

/// The agent.
pub struct Agent {
    /// The module that opened the tokens. Applications join it.
    module: Module,
    tickets: Tickets,
    applications: Mutex<HashMap<Name, Arc<Application>>>,
    connections: AtomicUsize,
    peers: Mutex<HashMap<String, OfPeer>>,
    latencies: Latencies,
    started: Instant,
    /// The number of threads that may ask for messages without sleeping.
    asking: usize,
    rules: Rules,
}

/// What the agent knows of a peer that has been connected.
struct OfPeer {
    connections: usize,
    shared: Arc<Shared>,
}

/// What the connections of a peer share.
struct Shared {
    /// The room for long requests. A call takes it before that for the answer.
    requests: Arc<Room>,
    /// The room for long answers.
    answers: Arc<Room>,
    figures: Figures,
}

/// An application of a client.
struct Application {
    module: Module,
    /// The name of the peer that started it. No other peer joins it.
    peer: String,
    connections: AtomicUsize,
    /// The sessions whose signature operation makes one-time passwords.
    otp: Mutex<HashSet<u64>>,
    pace: Pace,
}

/// What a thread knows of its connection.
struct Served<'a> {
    agent: &'a Arc<Agent>,
    peer: String,
    /// Whether the peer is root, or the user of the agent.
    administers: bool,
    /// The rule of the peer; `None` if it may do everything.
    rule: Option<&'a Rule>,
    shared: Arc<Shared>,
    application: Option<(Name, Arc<Application>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Opens the tokens of the configuration.
    pub fn start(tickets: Tickets, rules: Rules) -> Result<Arc<Self>, Error> {
        let module = Module::new();
        module.initialize(None)?;
        jeton_pkcs11::serve_applications();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (applications, connections, peers, latencies) = Default::default();
        let asking = processors.saturating_sub(1).max(1);
        let started = Instant::now();
        Ok(Arc::new(Self {
            module,
            tickets,
            applications,
            connections,
            peers,
            latencies,
            started,
            asking,
            rules,
        }))
    }

    /// Accepts the connections of this host for ever.
    pub fn serve(self: &Arc<Self>, listener: &UnixListener) -> io::Result<()> {
        loop {
            if let Some((stream, _)) = accepted(listener.accept())? {
                match Peer::of(&stream) {
                    Ok(peer) => self.start_thread(move |agent| agent.serve_peer(stream, &peer)),
                    Err(error) => warn!(%error, "a connection without a user"),
                }
            }
        }
    }

    /// Accepts the connections of other hosts for ever.
    pub fn serve_hosts(self: &Arc<Self>, listener: &TcpListener, gate: &Arc<Gate>) -> io::Result<()> {
        let mut last = Instant::now();
        loop {
            if let Some((stream, address)) = accepted(listener.accept())? {
                tls::pace(&mut last);
                let gate = Arc::clone(gate);
                self.start_thread(move |agent| match gate.admit(stream, address.ip()) {
                    Ok((stream, peer)) => agent.serve_peer(stream, &peer),
                    Err(error) => warn!(%address, %error, "no TLS connection"),
                });
            }
        }
    }

    fn start_thread(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let agent = Arc::clone(self);
        if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(move || work(&agent)) {
            warn!(%error, "no thread for a connection");
        }
    }

    /// Ends the process when there has been no connection for this time.
    pub fn exit_when_idle(self: &Arc<Self>, limit: Duration) {
        let agent = Arc::clone(self);
        thread::spawn(move || {
            let mut since = Instant::now();
            while since.elapsed() < limit {
                thread::sleep(limit.min(Duration::from_secs(1)));
                if agent.connections.load(Ordering::Relaxed) != 0 {
                    since = Instant::now();
                }
            }
            info!("no application is connected");
            agent.end();
            std::process::exit(0);
        });
    }

    /// Closes the tokens. The applications that are left find nothing.
    pub fn end(&self) {
        // Nothing is left to do if it fails.
        let _ = self.module.finalize();
    }

    /// Serves a connection until it ends.
    pub fn serve_peer(self: &Arc<Self>, stream: impl Stream + 'static, peer: &Peer) {
        let name = peer.name();
        let Some(rule) = self.rules.of(peer) else {
            return warn!(peer = name, "no rule allows this client");
        };
        let Some(shared) = self.admit(&name, rule.and_then(|rule| rule.memory)) else {
            return warn!(peer = name, "too many connections");
        };
        let mut channel = Channel::new(stream, self.asking);
        channel.share(&shared.requests);
        let (administers, application) = (peer.administers(), None);
        let mut served = Served { agent: self, peer: name, administers, rule, shared, application };
        let _ = served.run(&mut channel);
    }

    fn admit(&self, peer: &str, memory: Option<usize>) -> Option<Arc<Shared>> {
        let mut peers = lock(&self.peers);
        let of_peer = peers.entry(peer.to_owned()).or_insert_with(|| {
            let memory = memory.unwrap_or(MEMORY);
            let (requests, answers) = (Room::new(memory), Room::new(memory));
            OfPeer {
                connections: 0,
                shared: Arc::new(Shared { requests, answers, figures: Figures::default() }),
            }
        });
        if of_peer.connections >= MOST_OF_PEER || self.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS
        {
            return None;
        }
        of_peer.connections += 1;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&of_peer.shared))
    }

    fn dismiss(&self, peer: &str) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(of_peer) = lock(&self.peers).get_mut(peer) {
            of_peer.connections -= 1;
        }
    }

    fn status(&self) -> Status {
        let applications: Vec<_> = lock(&self.applications).values().map(Arc::clone).collect();
        let sessions: usize = applications.iter().map(|application| application.module.session_count()).sum();
        let of_client = |(client, of_peer): (&String, &OfPeer)| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let Figures { calls, refused } = &of_peer.shared.figures;
            let connections = of_peer.connections as u64;
            OfClient { client: client.clone(), connections, calls: count(calls), refused: count(refused) }
        };
        let mut clients: Vec<_> = lock(&self.peers).iter().map(of_client).collect();
        clients.sort_by(|one, other| one.client.cmp(&other.client));
        let (requests, times) = self.latencies.quantiles();
        Status {
            seconds: self.started.elapsed().as_secs(),
            applications: applications.len() as u64,
            connections: self.connections.load(Ordering::Relaxed) as u64,
            sessions: sessions as u64,
            clients,
            requests,
            times,
        }
    }
}

/// Returns a new connection; `None` if there is none now.
fn accepted<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(connection) => Ok(Some(connection)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) =>
        {
            Ok(None)
        }
        // No descriptor or no memory: the connection waits until another one ends.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
            warn!(%error, "a connection waits");
            thread::sleep(Duration::from_millis(50));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Served<'_> {
    /// Answers messages until the connection ends.
    fn run(&mut self, channel: &mut Channel) -> io::Result<()> {
        loop {
            let limit = if self.application.is_some() { protocol::MAX_MESSAGE } else { protocol::MAX_FIRST };
            match channel.receive(limit) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                outcome => outcome?,
            }
            let (message, frame) = channel.parts();
            let (mut taken, start) = (None, Instant::now());
            if self.answer(message, frame, &mut taken).is_err() {
                warn!(peer = self.peer, "a message that does not follow the protocol");
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.agent.latencies.note(start.elapsed());
            channel.send()?;
            channel.wipe();
        }
    }

    /// Makes the answer to a message.
    fn answer(
        &mut self,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        taken: &mut Option<Taken>,
    ) -> Result<(), Malformed> {
        let request: Request<'_> = protocol::take(&mut message)?;
        if let (Request::Calls { session, count }, Some((_, application))) = (&request, &self.application) {
            protocol::start(frame);
            protocol::append(&Reply::Answers, frame)?;
            self.calls(application, *session, *count, message, frame, taken)?;
            return protocol::finish(frame);
        }
        if !message.is_empty() {
            return Err(Malformed);
        }
        let reply = match request {
            Request::Start { version, .. } | Request::Join { version, .. }
                if version != protocol::VERSION =>
            {
                Reply::Refused("the agent speaks another version of the protocol")
            }
            Request::Start { single, .. } if self.application.is_none() => self.begin(single),
            Request::Join { application, .. } if self.application.is_none() => self.join(application),
            Request::End => {
                if let Some((name, application)) = &self.application {
                    lock(&self.agent.applications).remove(name);
                    let _ = application.module.finalize();
                }
                Reply::Done(CKR_OK)
            }
            Request::Resume { session, ticket } => Reply::Done(self.resume(session, ticket)),
            Request::Status if !self.administers => Reply::Refused("only root and the agent's user may ask"),
            Request::Status => Reply::Status(self.agent.status()),
            _ => return Err(Malformed),
        };
        protocol::encode(&reply, frame)
    }

    /// Starts an application.
    fn begin(&mut self, single: bool) -> Reply<'static> {
        let mut name = Name::default();
        if getrandom::fill(&mut name).is_err() {
            return Reply::Refused("no random bytes");
        }
        let identity =
            Identity { name: self.peer.clone(), objects: self.rule.and_then(|rule| rule.objects.clone()) };
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
        let connections = AtomicUsize::new(1);
        let (peer, otp, pace) = (self.peer.clone(), Mutex::default(), Pace::default());
        let application = Arc::new(Application { module, peer, connections, otp, pace });
        lock(&self.agent.applications).insert(name, Arc::clone(&application));
        self.application = Some((name, application));
        Reply::Started { version: protocol::VERSION, application: name, parameters: parameters::all() }
    }

    /// Joins an application.
    fn join(&mut self, name: Name) -> Reply<'static> {
        let applications = lock(&self.agent.applications);
        let known = applications.get(&name).filter(|known| known.peer == self.peer);
        let Some(application) = known else { return Reply::Unknown };
        application.connections.fetch_add(1, Ordering::AcqRel);
        self.application = Some((name, Arc::clone(application)));
        Reply::Started { version: protocol::VERSION, application: name, parameters: Vec::new() }
    }

    /// Carries out calls, up to the first one that fails.
    fn calls(
        &self,
        application: &Application,
        session: u64,
        count: u8,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        taken: &mut Option<Taken>,
    ) -> Result<(), Malformed> {
        if usize::from(count) > protocol::MAX_CALLS {
            return Err(Malformed);
        }
        self.shared.figures.calls.fetch_add(u64::from(count), Ordering::Relaxed);
        jeton_pkcs11::with_module(&application.module, || {
            for _ in 0..count {
                let call: Call<'_> = protocol::take(&mut message)?;
                let room: usize = call.arguments.iter().map(Argument::room).sum();
                if room > KEPT {
                    // A thread that has a part must not wait for more.
                    drop(taken.take());
                    *taken = Some(self.shared.answers.take(frame.len() + room));
                }
                if self.call(application, session, &call, frame)? != CKR_OK {
                    return Ok(());
                }
            }
            if message.is_empty() { Ok(()) } else { Err(Malformed) }
        })
    }

    /// Carries out a call, and appends its answer. Returns its code.
    fn call(
        &self,
        application: &Application,
        session: u64,
        call: &Call<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<CK_RV, Malformed> {
        if let Some(rule) = self.rule
            && let Some(code) = self.by_rule(rule, application, session, call, frame)?
        {
            return Ok(code);
        }
        let mut outcome = CKR_GENERAL_ERROR;
        carry_out(call.function, session, &call.arguments, &mut |code, outputs| {
            outcome = code;
            let state = match session {
                0 => State::default(),
                _ => state(&application.module, session),
            };
            let kept = if code == CKR_OK { self.kept(application, session, call) } else { None };
            let kept = kept.as_deref().map(Bytes::new);
            let mut outputs = outputs.to_vec();
            let mut block: Option<Vec<u8>> = None;
            let otp = code == CKR_OK && application.makes_otp(session, call);
            if otp && let [_, given] = &mut outputs[..] {
                let moved = block.insert(given.to_vec());
                otp::move_pointers(moved, given.as_ptr().expose_provenance() as u64, 0);
                *given = Bytes::new(moved);
            } else if let (Some(rule), true) = (self.rule, code == CKR_OK) {
                block = self.after(rule, application, call, &outputs);
                if let (Some(altered), [first, ..]) = (&block, &mut outputs[..]) {
                    *first = Bytes::new(altered);
                }
            }
            protocol::append(&Answer { code, state, outputs, otp, kept }, frame)
        })?;
        Ok(outcome)
    }

    /// Answers a call that the rule refuses, or that the agent carries out in another way. Returns
    /// its code, or `None` for any other call.
    fn by_rule(
        &self,
        rule: &Rule,
        application: &Application,
        session: u64,
        call: &Call<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<CK_RV>, Malformed> {
        application.pace.wait(rule);
        let module = &application.module;
        let state = if session == 0 { State::default() } else { state(module, session) };
        let refused = rule.refusal(module, call);
        if let Some(code) = refused {
            let function = call.function.name();
            self.shared.figures.refused.fetch_add(1, Ordering::Relaxed);
            warn!(peer = self.peer, function, "refused by a rule");
            let session = (session != 0).then_some(SessionHandle(session));
            let mechanism = rules::mechanism(call);
            let result = format!("refused by a rule: 0x{code:x}");
            module.record_refusal(session, function, mechanism, result);
            let (outputs, otp, kept) = (Vec::new(), false, None);
            protocol::append(&Answer { code, state, outputs, otp, kept }, frame)?;
            return Ok(Some(code));
        }
        // A program may insist on a login of the user, or end with a logout.
        let is_login = match call.function {
            Function::C_Login => matches!(call.arguments.first(), Some(Argument::Number(CKU_USER))),
            function => function == Function::C_Logout,
        };
        let slot = slot_of(module, session).filter(|_| is_login && is_user(module, session));
        if slot.is_some_and(|slot| rule.logs_in(module, slot)) {
            let (outputs, otp, kept) = (Vec::new(), false, None);
            protocol::append(&Answer { code: CKR_OK, state, outputs, otp, kept }, frame)?;
            return Ok(Some(CKR_OK));
        }
        if let (Function::C_GetSlotList, true) = (call.function, rule.hides_slots())
            && let [_, Argument::Output(is_given, Some(room))] = call.arguments[..]
        {
            let slots = module.slots().unwrap_or_default();
            let seen: Vec<_> = slots.into_iter().filter(|slot| rule.sees(module, *slot)).collect();
            let count = (seen.len() as u64).to_ne_bytes();
            let items: Vec<_> = seen.iter().flat_map(|slot| slot.0.to_ne_bytes()).collect();
            let fits = !is_given || room >= seen.len() as u64;
            let code = if fits { CKR_OK } else { CKR_BUFFER_TOO_SMALL };
            let items = if is_given && fits { &items[..] } else { &[] };
            let outputs = vec![Bytes::new(&count), Bytes::new(items)];
            protocol::append(&Answer { code, state, outputs, otp: false, kept: None }, frame)?;
            return Ok(Some(code));
        }
        Ok(None)
    }

    /// Does what the rule demands after a call that succeeded: logs in to the token of a new
    /// session, and shows that the token needs no login. Returns the first output if it is another
    /// one.
    fn after(
        &self,
        rule: &Rule,
        application: &Application,
        call: &Call<'_>,
        outputs: &[&Bytes],
    ) -> Option<Vec<u8>> {
        let Some(Argument::Number(slot)) = call.arguments.first() else { return None };
        let module = &application.module;
        let first = outputs.first()?;
        match call.function {
            Function::C_OpenSession => {
                let session = u64::from_ne_bytes(first[..].try_into().ok()?);
                if rule.logs_in(module, SlotId(*slot))
                    && !is_user(module, session)
                    && let Some(pin) = rule.pin()
                    && let Err(error) = module.login(SessionHandle(session), User::User, &pin)
                {
                    warn!(peer = self.peer, ?error, "the agent cannot log in");
                }
                None
            }
            Function::C_GetTokenInfo if rule.logs_in(module, SlotId(*slot)) => {
                let at = std::mem::offset_of!(CK_TOKEN_INFO, flags);
                let mut info = first.to_vec();
                let flags = u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?);
                info[at..at + 8].copy_from_slice(&(flags & !CKF_LOGIN_REQUIRED).to_ne_bytes());
                Some(info)
            }
            _ => None,
        }
    }

    /// Returns what the client keeps after a call that succeeded.
    fn kept(&self, application: &Application, session: u64, call: &Call<'_>) -> Option<Vec<u8>> {
        match (call.function, call.arguments.first()) {
            (Function::C_OpenSession, Some(Argument::Number(slot))) => {
                Some(application.module.token(SlotId(*slot)).ok()?.serial.into())
            }
            (Function::C_Login, _) => self.ticket(application, session, call),
            _ => None,
        }
    }

    /// Returns the ticket of a login that succeeded.
    fn ticket(&self, application: &Application, session: u64, call: &Call<'_>) -> Option<Vec<u8>> {
        let [Argument::Number(user @ (CKU_SO | CKU_USER)), Argument::Input(Input::Data(pin))] =
            call.arguments[..]
        else {
            return None;
        };
        let token = serial(&application.module, session)?;
        let logouts =
            application.module.with_session(SessionHandle(session), |session| Ok(session.logouts()));
        let login = Login { user, logouts: logouts.ok()?, pin };
        self.agent.tickets.seal(&Holder { peer: &self.peer, token: &token }, &login)
    }

    /// Logs in with a ticket. Returns the code.
    fn resume(&self, session: u64, ticket: &[u8]) -> CK_RV {
        let Some((_, application)) = &self.application else { return CKR_GENERAL_ERROR };
        let Some(token) = serial(&application.module, session) else { return CKR_SESSION_HANDLE_INVALID };
        let holder = Holder { peer: &self.peer, token: &token };
        let outcome = self.agent.tickets.open_for(&holder, ticket, |login| {
            let user = if login.user == CKU_SO { User::SecurityOfficer } else { User::User };
            let session = SessionHandle(session);
            application.module.with_session(session, |session| {
                session.set_logouts(login.logouts);
                Ok(())
            })?;
            application.module.login(session, user, login.pin)
        });
        match outcome {
            Some(Ok(()) | Err(Error::UserAlreadyLoggedIn)) => CKR_OK,
            // The application learns it from its next call.
            _ => {
                warn!(peer = self.peer, ?outcome, "a ticket does not log in");
                CKR_USER_NOT_LOGGED_IN
            }
        }
    }
}

impl Application {
    /// Returns whether a successful call wrote a one-time password. Notes which operations make
    /// them.
    fn makes_otp(&self, session: u64, call: &Call<'_>) -> bool {
        match (call.function, &call.arguments[..]) {
            (Function::C_SignInit, [Argument::Mechanism(Some(mechanism), _), ..]) => {
                let is_otp = Known.parameter(*mechanism) == Parameter::Otp;
                let mut sessions = lock(&self.otp);
                if is_otp {
                    sessions.insert(session)
                } else {
                    sessions.remove(&session)
                };
                false
            }
            (Function::C_Sign | Function::C_SignFinal, [.., Argument::Output(true, _)]) => {
                lock(&self.otp).contains(&session)
            }
            _ => false,
        }
    }
}

/// Returns what a session has besides itself.
fn state(module: &Module, session: u64) -> State {
    let seen = module.with_session(SessionHandle(session), |session| {
        Ok(State { operations: session.active(), objects: session.has_session_objects() })
    });
    seen.unwrap_or_default()
}

/// Returns whether the user is logged in to the token of a session.
fn is_user(module: &Module, session: u64) -> bool {
    let state = module.session(SessionHandle(session)).map(|session| session.state);
    state.is_ok_and(|state| matches!(state, CKS_RO_USER_FUNCTIONS | CKS_RW_USER_FUNCTIONS))
}

/// Returns the slot of a session.
fn slot_of(module: &Module, session: u64) -> Option<SlotId> {
    module.session(SessionHandle(session)).ok().map(|session| session.slot)
}

/// Returns the serial number of the token of a session.
fn serial(module: &Module, session: u64) -> Option<Vec<u8>> {
    let slot = slot_of(module, session)?;
    Some(module.token(slot).ok()?.serial.into())
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.agent.dismiss(&self.peer);
        let Some((name, application)) = self.application.take() else { return };
        let mut applications = lock(&self.agent.applications);
        if application.connections.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The process has ended, or starts another application.
            applications.remove(&name);
            drop(applications);
            if application.module.finalize().is_ok() {
                info!(peer = self.peer, "an application ended");
            }
        }
    }
}
