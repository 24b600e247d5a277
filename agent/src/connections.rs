//! Connections and the clients at their other ends. Each connection has a thread.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::RawFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton::error::Error;
use jeton::module::Module;
use jeton::quota::{Permit, Quota};
use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::status::OfClient;
use jeton_agent_wire::wait::Stream;
use jeton_agent_wire::{self as wire, Application as Name, Malformed, Reply, Request, Status};
use tracing::{info, warn};

use crate::application::Application;
use crate::budget::{Budget, WAIT};
use crate::figures::{Figures, Latencies};
use crate::peer::Peer;
use crate::pins::Pins;
use crate::rules::{Rule, Rules};
use crate::ticket::Tickets;
use crate::tls::{self, Gate};

/// The stack of a connection's thread. ML-DSA of AWS-LC needs the most.
const STACK: usize = 512 * 1024;
/// The most connections at the same time.
const MOST_CONNECTIONS: usize = 16_384;
/// The memory in bytes of the calls of a client and of what it keeps, if no rule says another
/// number.
const MEMORY: usize = 512 << 20;
/// The longest buffer that a connection keeps between two messages. Longer messages take their
/// memory from the client's quota.
const KEPT: usize = 64 * 1024;
/// What a connection takes from the client's quota: both buffers, and as much for its stack and for
/// small calls.
const CONNECTION: usize = 4 * KEPT;

/// The agent.
pub struct Agent {
    /// The module that opened the tokens. Applications join it.
    pub(crate) module: Module,
    pub(crate) tickets: Tickets,
    pub(crate) pins: Pins,
    pub(crate) applications: Mutex<HashMap<Name, Arc<Application>>>,
    connections: AtomicUsize,
    clients: Mutex<HashMap<String, Arc<Client>>>,
    latencies: Latencies,
    started: Instant,
    /// The number of threads that may ask for messages without sleeping.
    asking: usize,
    rules: Rules,
}

/// What the connections of a client share.
pub(crate) struct Client {
    connections: AtomicUsize,
    /// The memory of long requests. A call takes it before that for its answer, so that no two calls
    /// wait for each other.
    requests: Arc<Quota>,
    /// The memory of connections, of calls, and of what an application keeps between calls.
    pub(crate) memory: Arc<Quota>,
    pub(crate) figures: Figures,
}

/// What a thread knows of its connection.
pub(crate) struct Connection<'a> {
    pub(crate) agent: &'a Arc<Agent>,
    pub(crate) peer: String,
    /// Whether the peer is root, or the user of the agent.
    administers: bool,
    /// The rule of the peer; `None` if it may do everything.
    pub(crate) rule: Option<&'a Rule>,
    pub(crate) client: Arc<Client>,
    /// The memory of the connection.
    _permit: Permit,
    pub(crate) application: Option<(Name, Arc<Application>)>,
    /// The descriptor of the socket.
    descriptor: RawFd,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Opens the tokens of the configuration.
    pub fn start(tickets: Tickets, rules: Rules) -> Result<Arc<Self>, Error> {
        let module = Module::new();
        module.initialize(None)?;
        jeton_pkcs11::serve_applications();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (pins, applications, connections, clients, latencies) = Default::default();
        let asking = processors.saturating_sub(1).max(1);
        let started = Instant::now();
        Ok(Arc::new(Self {
            module,
            tickets,
            pins,
            applications,
            connections,
            clients,
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
        let Some((client, permit)) = self.admit(&name, rule.and_then(|rule| rule.memory)) else {
            return warn!(peer = name, "too many connections");
        };
        let descriptor = stream.descriptor();
        let mut channel = Channel::new(stream, self.asking, KEPT);
        let administers = peer.administers();
        let mut connection = Connection {
            agent: self,
            peer: name,
            administers,
            rule,
            client,
            _permit: permit,
            application: None,
            descriptor,
        };
        let _ = connection.run(&mut channel);
    }

    /// Counts a connection, and takes its memory. `None` if there is none.
    fn admit(&self, peer: &str, memory: Option<usize>) -> Option<(Arc<Client>, Permit)> {
        let mut clients = lock(&self.clients);
        let client = clients.entry(peer.to_owned()).or_insert_with(|| {
            let memory = memory.unwrap_or(MEMORY);
            let (requests, memory) = (Quota::new(memory), Quota::new(memory));
            let (connections, figures) = Default::default();
            Arc::new(Client { connections, requests, memory, figures })
        });
        if self.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            return None;
        }
        let permit = client.memory.try_take(CONNECTION)?;
        client.connections.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some((Arc::clone(client), permit))
    }

    fn status(&self) -> Status {
        let applications: Vec<_> = lock(&self.applications).values().map(Arc::clone).collect();
        let sessions: usize = applications.iter().map(|application| application.module.session_count()).sum();
        let of_client = |(name, client): (&String, &Arc<Client>)| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let Figures { calls, refused } = &client.figures;
            let connections = client.connections.load(Ordering::Relaxed) as u64;
            OfClient { client: name.clone(), connections, calls: count(calls), refused: count(refused) }
        };
        let mut clients: Vec<_> = lock(&self.clients).iter().map(of_client).collect();
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

impl Connection<'_> {
    /// Answers messages until the connection ends.
    fn run(&mut self, channel: &mut Channel) -> io::Result<()> {
        loop {
            let limit = if self.application.is_some() { self.longest() } else { wire::MAX_FIRST };
            // The memory of a long request, until the answer has been sent.
            let mut permit = None;
            let client = Arc::clone(&self.client);
            let admit = |len| {
                permit = client.requests.take(len, WAIT);
                permit.is_some()
            };
            match channel.receive(limit, admit) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => {
                    warn!(peer = self.peer, %error, "a message that cannot be received");
                    return Err(error);
                }
                Ok(()) => {}
            }
            let (message, frame) = channel.parts();
            let (mut budget, start) = (Budget::new(&client.memory), Instant::now());
            if self.answer(message, frame, &mut budget).is_err() {
                warn!(peer = self.peer, "a message that does not follow the protocol");
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.agent.latencies.note(start.elapsed());
            channel.send()?;
            channel.wipe();
        }
    }

    /// Waits for this time. Returns whether the peer has closed the connection, or sent something
    /// without a request.
    pub(crate) fn has_ended(&self, time: Duration) -> bool {
        let mut socket =
            libc::pollfd { fd: self.descriptor, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
        // SAFETY: one valid struct.
        unsafe { libc::poll(&raw mut socket, 1, time.as_millis() as i32) > 0 }
    }

    /// Returns the greatest length of a message of this client.
    pub(crate) fn longest(&self) -> usize {
        self.client.requests.limit().clamp(KEPT, wire::MAX_MESSAGE)
    }

    /// Makes the answer to a message.
    fn answer(
        &mut self,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        let request: Request<'_> = wire::take(&mut message)?;
        if let (Request::Calls { session, count }, Some((_, application))) = (&request, &self.application) {
            wire::start(frame);
            wire::append(&Reply::Answers, frame)?;
            self.calls(application, *session, *count, message, frame, budget)?;
            return Ok(wire::finish(frame)?);
        }
        if !message.is_empty() {
            return Err(Malformed);
        }
        let reply = match request {
            Request::Start { version, .. } | Request::Join { version, .. } if version != wire::VERSION => {
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
        Ok(wire::encode(&reply, frame)?)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.agent.connections.fetch_sub(1, Ordering::Relaxed);
        self.client.connections.fetch_sub(1, Ordering::Relaxed);
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
