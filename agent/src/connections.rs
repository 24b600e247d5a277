//! Connections and the clients at their other ends. Each connection has a thread.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use jeton::config::log;
use jeton::error::Error;
use jeton::functions::Module;
use jeton::id::{ObjectHandle, SessionHandle};
use jeton::quota::Permit;
use jeton::token::with_handle;
use jeton_agent_wire::channel::{Channel, KEPT, STAY};
use jeton_agent_wire::wait::Stream;
use jeton_agent_wire::{self as wire, Malformed, Opening, Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_bytes::Bytes;
use tracing::{error, info, warn};

use crate::budget::{Budget, WAIT};
use crate::dispatch::{drop_room, room};
use crate::peer::Peer;
use crate::register::{Client, Register};
use crate::rules::{Rule, Rules, Verdict};
use crate::ticket::Tickets;
use crate::tls;
use crate::{Agent, Connection, PROGRESS, lock};

/// The stack of a connection's thread. ML-DSA of AWS-LC needs the most.
const STACK: usize = 512 * 1024;
/// How long an accept loop waits after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// What a peer learns that no rule allows.
const REFUSED: &str = "refused by the rules of the agent";

impl Agent {
    /// Opens the tokens of the configuration.
    pub fn start(tickets: Tickets, rules: Rules) -> Result<Arc<Self>, Error> {
        let module = Module::new();
        module.initialize(None)?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (pins, applications, latencies, gate) = Default::default();
        let asking = processors.saturating_sub(1).max(1);
        let (started, register) = (Instant::now(), Register::new(rules));
        Ok(Arc::new(Self { module, tickets, pins, applications, register, latencies, started, asking, gate }))
    }

    /// Accepts the connections of this host for ever.
    pub fn serve(self: &Arc<Self>, listener: &UnixListener) {
        loop {
            let Some((stream, _)) = accepted(listener.accept()) else { continue };
            match limited(&stream).and_then(|()| Peer::of(&stream)) {
                Ok(peer) => self.start_thread(move |agent| agent.serve_peer(stream, peer)),
                Err(error) => warn!(%error, "a connection without a user"),
            }
        }
    }

    /// Accepts the connections of other hosts for ever.
    pub fn serve_hosts(self: &Arc<Self>, listener: &TcpListener) {
        let mut last = Instant::now();
        loop {
            let Some((stream, address)) = accepted(listener.accept()) else { continue };
            tls::pace(&mut last);
            self.start_thread(move |agent| {
                let rules = agent.register.rules();
                let Some(section) = &rules.tls else { return };
                match agent.gate.admit(stream, address.ip(), section) {
                    Ok((stream, peer)) => agent.serve_peer(stream, peer),
                    Err(error) => warn!(%address, %error, "no TLS connection"),
                }
            });
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
                if agent.register.len() != 0 {
                    since = Instant::now();
                }
            }
            info!("no application is connected");
            agent.stop();
            std::process::exit(0);
        });
    }

    /// Serves a connection until it ends.
    pub fn serve_peer(self: &Arc<Self>, stream: impl Stream + 'static, peer: Peer) {
        let socket = match stream.descriptor().try_clone_to_owned() {
            Ok(socket) => socket,
            Err(error) => return warn!(%error, "no descriptor for a connection"),
        };
        let Some(standing) = self.register.admit(peer, socket) else { return };
        log::work_for(&standing.identity);
        let mut channel = Channel::new(stream, self.asking);
        let mut connection = Connection { agent: self, standing, permit: None, application: None, number: 0 };
        let _ = connection.run(&mut channel);
    }
}

/// Returns a new connection. Without one, waits for a short time: only a stop ends a listener.
fn accepted<T>(outcome: io::Result<T>) -> Option<T> {
    match outcome {
        Ok(connection) => Some(connection),
        Err(error) => {
            if !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) {
                error!(%error, "a connection is not accepted");
                thread::sleep(PAUSE);
            }
            None
        }
    }
}

/// Says which of both programs is too old.
fn wrong_version(version: u16) -> String {
    let (own, older) = (wire::VERSION, if version < wire::VERSION { "module" } else { "agent" });
    format!(
        "the client module speaks version {version} of the protocol and the agent version {own}: \
         update the {older}, or start its program again"
    )
}

/// Makes the frame of an answer to the administrator.
fn reported(reply: Reply<'_>, report: &impl Serialize, frame: &mut Vec<u8>) -> Result<(), Malformed> {
    wire::start(frame);
    wire::append(&reply, frame)?;
    wire::append(report, frame)?;
    Ok(wire::finish(frame)?)
}

/// Drops the long buffers of a connection.
fn shrink(channel: &mut Channel) {
    channel.shrink();
    drop_room();
}

/// Limits how long a peer of this host may take.
fn limited(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PROGRESS))?;
    stream.set_write_timeout(Some(PROGRESS))
}

impl Connection<'_> {
    /// Returns the text by which the logs, limits and tickets know the client.
    pub(crate) fn peer(&self) -> &str {
        &self.standing.identity
    }

    /// Returns the rule of the client; `None` if it may do everything.
    pub(crate) fn rule(&self) -> Option<&Rule> {
        self.standing.verdict.rule()
    }

    /// Returns what the connections of the client share.
    pub(crate) fn client(&self) -> &Client {
        &self.standing.client
    }

    /// Answers messages until the connection ends.
    fn run(&mut self, channel: &mut Channel) -> io::Result<()> {
        let mut has_begun = false;
        let client = Arc::clone(&self.standing.client);
        // The memory of a long request, and of long buffers until the next one.
        let mut permit = None;
        while !self.agent.register.is_ending() {
            let limit = if self.application.is_some() { self.longest() } else { wire::MAX_FIRST };
            if permit.is_some() && !self.has_ended(STAY) {
                shrink(channel);
                permit = None;
            }
            let admit = |len| {
                drop_room();
                permit = None;
                permit = client.requests.take(len, WAIT);
                permit.is_some()
            };
            match channel.receive(limit, admit) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                // Nothing of a message has arrived. After the first one, a client may be silent.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_begun => continue,
                Err(error) => {
                    warn!(peer = self.peer(), %error, "a message that cannot be received");
                    return Err(error);
                }
                Ok(()) => {}
            }
            let (message, frame) = channel.parts();
            let (mut budget, start) = (Budget::new(&client.memory), Instant::now());
            if self.answer(message, frame, &mut budget).is_err() {
                warn!(peer = self.peer(), "a message that does not follow the protocol");
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.agent.latencies.note(start.elapsed());
            channel.send()?;
            channel.wipe();
            // Long buffers stay, but half of the quota is for connections that need one now.
            let requests = &client.requests;
            let long = if channel.long() == 0 { 0 } else { channel.long() + room() };
            let held = permit.as_ref().map_or(0, Permit::bytes);
            let is_free = requests.used() - held + long <= requests.limit() / 2;
            let stays = long != 0 && is_free && !requests.is_wanted();
            let next = if stays { requests.try_take(long) } else { None };
            if next.is_none() {
                shrink(channel);
            }
            permit = next;
            if matches!(self.standing.verdict, Verdict::Refused) {
                return Ok(());
            }
            has_begun = true;
        }
        Ok(())
    }

    /// Waits for this time. Returns whether the peer has closed the connection, or sent something
    /// without a request.
    pub(crate) fn has_ended(&self, time: Duration) -> bool {
        if time.is_zero() {
            return false;
        }
        let socket = PollFd::new(&self.standing.socket, PollFlags::IN | PollFlags::RDHUP);
        let time = Timespec::try_from(time).ok();
        poll(&mut [socket], time.as_ref()).is_ok_and(|events| events > 0)
    }

    /// Returns the greatest length of a message of this client.
    pub(crate) fn longest(&self) -> usize {
        self.client().requests.limit().clamp(KEPT, wire::MAX_MESSAGE)
    }

    fn answer(
        &mut self,
        mut message: &[u8],
        frame: &mut Vec<u8>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        let request: Request<'_> = wire::take(&mut message)?;
        if let (Request::Calls { session, count, object, number, generation }, Some((_, application))) =
            (&request, &self.application)
        {
            Malformed::unless(*number == self.number.wrapping_add(1))?;
            self.number = *number;
            wire::start(frame);
            wire::append(&Reply::Answers(*number), frame)?;
            let mut calls = |frame: &mut Vec<u8>| {
                let at = (SessionHandle(*session), *generation);
                self.calls(application, at, *count, message, frame, budget)
            };
            match (session, generation, object) {
                (0, 1.., _) => self.open(application, Opening(*generation), frame, calls),
                (.., 0) => calls(frame),
                (.., object) => with_handle(ObjectHandle(*object), || calls(frame)),
            }?;
            return Ok(wire::finish(frame)?);
        }
        Malformed::unless(message.is_empty())?;
        let reply = match request {
            Request::Status | Request::Applications | Request::Lock(_)
                if !self.standing.peer.administers() =>
            {
                Reply::Refused("only root and the agent's user may ask")
            }
            Request::Status => return reported(Reply::Status, &self.agent.status(), frame),
            Request::Applications => return reported(Reply::Applications, &self.agent.list(), frame),
            Request::Lock(client) => match self.agent.lock_out(client, &self.standing) {
                Ok(reply) => reply,
                Err(reason) => return Ok(wire::encode(&Reply::Refused(&reason), frame)?),
            },
            _ if matches!(self.standing.verdict, Verdict::Refused) => {
                self.standing.note_refusal("no rule allows this client");
                Reply::Refused(REFUSED)
            }
            Request::Start { version, .. } | Request::Join { version, .. } if version != wire::VERSION => {
                let reason = wrong_version(version);
                warn!(peer = self.peer(), reason, "a connection is refused");
                return Ok(wire::encode(&Reply::Refused(&reason), frame)?);
            }
            Request::Start { single, .. } if self.application.is_none() => self.begin(single, None),
            Request::Join { application, .. } if self.application.is_none() => self.join(application),
            Request::End => {
                if let Some((name, application)) = &self.application {
                    lock(&self.agent.applications).remove(name);
                    let _ = application.module.finalize();
                }
                Reply::Done(0)
            }
            Request::Resume { session, ticket } => match self.resume(SessionHandle(session), ticket) {
                Ok(Some(renewed)) => {
                    return Ok(wire::encode(&Reply::Renewed(Bytes::new(&renewed)), frame)?);
                }
                outcome => Reply::Resumed(outcome.map(drop)),
            },
            _ => return Err(Malformed),
        };
        Ok(wire::encode(&reply, frame)?)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some((name, application)) = self.application.take() {
            let mut applications = lock(&self.agent.applications);
            if application.connections.fetch_sub(1, Ordering::AcqRel) == 1 {
                // The process has ended, or starts another application.
                applications.remove(&name);
                drop(applications);
                if application.module.finalize().is_ok() {
                    info!(peer = self.peer(), "an application ended");
                }
            }
        }
        self.agent.register.remove(&self.standing);
    }
}
