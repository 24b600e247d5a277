//! A connection. It has a thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jeton::config::log;
use jeton::id::{ObjectHandle, SessionHandle};
use jeton::quota::Permit;
use jeton::token::with_handle;
use jeton_agent_wire::channel::{Channel, KEPT, STAY};
use jeton_agent_wire::spin::Stream;
use jeton_agent_wire::{self as wire, Application as Name, Malformed, Opening, Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_bytes::Bytes;
use tracing::{info, warn};

use crate::dispatch::{drop_room, room};
use crate::link::ToFront;
use crate::lock;
use crate::request_memory::{Budget, WAIT};
use crate::rules::Rule;
use crate::worker::{Application, Worker};

/// What a thread knows of its connection.
pub(crate) struct Connection<'a> {
    pub(crate) worker: &'a Arc<Worker>,
    /// The number of the connection.
    pub(crate) number: u64,
    /// Another descriptor of its socket.
    socket: Arc<OwnedFd>,
    /// The memory of the connection, if it belongs to an application.
    pub(crate) permit: Option<Permit>,
    pub(crate) application: Option<(Name, Arc<Application>)>,
    /// The number of the last request with calls.
    request: u32,
}

impl Worker {
    /// Answers the messages of a connection until it ends.
    pub(crate) fn answer(self: &Arc<Self>, stream: impl Stream + 'static, number: u64, socket: Arc<OwnedFd>) {
        log::work_for(&self.client);
        let mut channel = Channel::new(stream, self.asking);
        let (worker, permit, application, request) = (self, None, None, 0);
        let mut connection = Connection { worker, number, socket, permit, application, request };
        let _ = connection.run(&mut channel);
    }
}

/// Drops the long buffers of a connection.
fn shrink(channel: &mut Channel) {
    channel.shrink();
    drop_room();
}

impl Connection<'_> {
    /// Returns the text by which the logs, limits and tickets know the client.
    pub(crate) fn peer(&self) -> &str {
        &self.worker.client
    }

    /// Returns the rule of the client; `None` if it may do everything.
    pub(crate) fn rule(&self) -> Option<&Rule> {
        self.worker.rule.as_ref()
    }

    /// Answers messages until the connection ends.
    fn run(&mut self, channel: &mut Channel) -> io::Result<()> {
        let mut has_begun = false;
        let worker = Arc::clone(self.worker);
        // The memory of a long request, and of long buffers until the next one.
        let mut permit = None;
        while !worker.is_ending() {
            let limit = if self.application.is_some() { self.longest() } else { wire::MAX_FIRST };
            if permit.is_some() && !self.has_ended(STAY) {
                shrink(channel);
                permit = None;
            }
            let admit = |len| {
                drop_room();
                permit = None;
                permit = worker.requests.take(len, WAIT);
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
            let (mut budget, start) = (Budget::new(&worker.memory), Instant::now());
            if self.answer(message, frame, &mut budget).is_err() {
                warn!(peer = self.peer(), "a message that does not follow the protocol");
                return Err(io::ErrorKind::InvalidData.into());
            }
            worker.latencies.note(start.elapsed());
            channel.send()?;
            channel.wipe();
            // Long buffers stay, but half of the quota is for connections that need one now.
            let requests = &worker.requests;
            let long = if channel.long() == 0 { 0 } else { channel.long() + room() };
            let held = permit.as_ref().map_or(0, Permit::bytes);
            let is_free = requests.used() - held + long <= requests.limit() / 2;
            let stays = long != 0 && is_free && !requests.is_wanted();
            let next = if stays { requests.try_take(long) } else { None };
            if next.is_none() {
                shrink(channel);
            }
            permit = next;
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
        let socket = PollFd::new(&*self.socket, PollFlags::IN | PollFlags::RDHUP);
        let time = Timespec::try_from(time).ok();
        poll(&mut [socket], time.as_ref()).is_ok_and(|events| events > 0)
    }

    /// Waits for the client's turn, for this time at most. Returns whether it came.
    pub(crate) fn has_turn(&self, most: Duration) -> bool {
        let Some(rule) = self.rule() else { return true };
        let wait = self.worker.pace.turn(rule);
        let has_come = wait <= most && !self.has_ended(wait);
        if !has_come {
            self.worker.pace.give_back(rule);
        }
        has_come
    }

    /// Returns the greatest length of a message of this client.
    pub(crate) fn longest(&self) -> usize {
        self.worker.requests.limit().clamp(KEPT, wire::MAX_MESSAGE)
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
            Malformed::unless(*number == self.request.wrapping_add(1))?;
            self.request = *number;
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
            Request::Status | Request::Applications | Request::Lock(_) => {
                Reply::Refused("an administrator asks at another socket")
            }
            Request::Start { version, .. } | Request::Join { version, .. } if version != wire::VERSION => {
                let reason = wire::wrong_version(version, wire::VERSION);
                warn!(peer = self.peer(), reason, "a connection is refused");
                return Ok(wire::encode(&Reply::Refused(&reason), frame)?);
            }
            Request::Start { single, .. } if self.application.is_none() => self.begin(single, None),
            Request::Join { application, .. } if self.application.is_none() => self.join(application),
            Request::End => {
                if let Some((name, application)) = &self.application {
                    lock(&self.worker.applications).remove(name);
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
            #[cfg(feature = "split")]
            Request::Split { session, ask } => return self.split(SessionHandle(session), &ask, frame),
            _ => return Err(Malformed),
        };
        Ok(wire::encode(&reply, frame)?)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some((name, application)) = self.application.take() {
            let mut applications = lock(&self.worker.applications);
            if application.connections.fetch_sub(1, Ordering::AcqRel) == 1 {
                // The process has ended, or starts another application.
                applications.remove(&name);
                drop(applications);
                self.worker.office.tell(ToFront::Ended(name));
                if application.module.finalize().is_ok() {
                    info!(peer = self.peer(), "an application ended");
                }
            }
        }
    }
}
