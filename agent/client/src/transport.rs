//! The transport: the connections of the application. Some wait for the next call. New ones are
//! made while agents end, stop and come back.
//!
//! Locks are taken in the order of the fields of [`Pool`], and no call of a socket happens under
//! `link` or `idle`.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire::{self as wire, Application as Name, Reply, Request, Unfit};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;

use address::Address;
use connection::{Connection, is_closed, is_final};
use limits::{Attempt, LEAST};

use crate::timed_mutex::TimedMutex;
use crate::{log, system};

mod address;
pub mod connection;
mod limits;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "split")]
pub use address::Split;
pub use limits::ATTEMPT;

/// Returns the section `[split]`.
#[cfg(feature = "split")]
pub fn split(parameters: Option<&str>) -> Result<Option<Split>> {
    Split::find(parameters).map_err(|error| refuse(&error))
}

/// The time between two attempts to connect.
pub const RETRY: Duration = Duration::from_millis(20);
/// The time between two attempts to connect while no agent answers and calls fail at once.
const PROBE: Duration = Duration::from_millis(200);
/// How many times as long as others a call may take that derives or unwraps a key, or initialises a
/// token.
const SLOW: u32 = 10;
/// Connections that are kept for the next call. More are closed after their call.
const KEPT: usize = 64;

/// The connections of the application.
#[derive(Default)]
pub struct Pool {
    /// Held by the thread that connects.
    connects: TimedMutex<()>,
    link: Mutex<Link>,
    idle: Mutex<Vec<Line>>,
    /// Whether the application is between `C_Initialize` and `C_Finalize`.
    is_open: AtomicBool,
}

/// What the agent knows the application by.
#[derive(Default)]
struct Link {
    /// The parameters of `C_Initialize`.
    parameters: Option<Box<str>>,
    addresses: Arc<[Address]>,
    /// How long a call waits for an agent that does not answer.
    patience: Duration,
    /// The position of the agent that answered last.
    at: usize,
    name: Option<Name>,
    /// The user of the process when the application began at the agent.
    user: Option<u32>,
    /// Counts the agents. A session belongs to one of them.
    epoch: u64,
    /// When `C_Initialize` was called.
    since: Option<Instant>,
    /// Whether the module may create no threads.
    single: bool,
    /// Since when no agent answers.
    lost: Option<Instant>,
    /// When the last attempt to connect ended.
    tried: Option<Instant>,
    /// Whether standard error says that the agents refuse this client: once for each
    /// `C_Initialize`.
    is_said: bool,
}

/// A connection to an agent.
pub struct Line {
    pub connection: Connection,
    /// The number of the agent: see [`Link::epoch`].
    pub epoch: u64,
    /// The greatest length of a message that the agent takes.
    longest: u64,
}

/// A connection that one call uses. It goes back to the pool when it is dropped, unless it was
/// lost.
pub struct Linked<'a> {
    pool: &'a Pool,
    line: Option<Line>,
}

/// When a call began, and how long it waits. The waits of one call have one deadline: those for a
/// lock, a connection, an answer, and for the sessions and logins that are made again.
#[derive(Clone, Copy)]
pub struct Deadline {
    start: Instant,
    pub end: Instant,
}

impl Deadline {
    /// Returns the deadline of a call that may take longer than others.
    pub fn slow(self) -> Instant {
        self.start + SLOW * (self.end - self.start)
    }

    /// Returns the time that is left.
    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Why there is no connection.
enum Failure {
    /// The agent, or TLS, refuses this client: another attempt fails too.
    Refused(String),
    /// The agent says that it has no room for another connection of this client now.
    Busy(String),
    /// The agent closed the connection without an answer: it has no room, or it ends.
    Closed(String),
    /// No agent answers.
    Lost(String),
}

impl Failure {
    fn of(address: &Address, error: &io::Error) -> Self {
        let advice = match (address, error.kind()) {
            (Address::Unix(_), io::ErrorKind::PermissionDenied) => {
                "; the user of this process has to be in the group of the socket"
            }
            _ => "",
        };
        let reason = format!("{address}: {error}{advice}");
        match error {
            error if is_final(error) => Self::Refused(reason),
            error if is_closed(error) => Self::Closed(reason),
            _ => Self::Lost(reason),
        }
    }

    /// Returns the failure of the two that is more likely to pass.
    fn or(self, other: Self) -> Self {
        let rank = |failure: &Self| match failure {
            Self::Busy(_) => 0,
            Self::Closed(_) => 1,
            Self::Lost(_) => 2,
            Self::Refused(_) => 3,
        };
        if rank(&self) < rank(&other) { self } else { other }
    }

    fn reason(&self) -> &str {
        let (Self::Refused(reason) | Self::Busy(reason) | Self::Closed(reason) | Self::Lost(reason)) = self;
        reason
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Connects to the first agent that answers. The first `C_Initialize` of a process does not
    /// wait for an agent that is missing, so that this shows at once.
    pub fn start(&self, parameters: Option<&str>, threads: Threads) -> Result<()> {
        let (addresses, patience, level) =
            Address::all(parameters, threads).map_err(|error| refuse(&error))?;
        log::start(level);
        let is_first = {
            let mut link = lock(&self.link);
            let before = std::mem::take(&mut *link);
            *link = Link {
                addresses: addresses.into(),
                patience,
                epoch: before.epoch,
                since: Some(Instant::now()),
                single: threads == Threads::Forbidden,
                // If another thread has just waited for these agents, this one does not wait too.
                lost: before.lost.filter(|_| before.parameters.as_deref() == parameters),
                tried: before.tried,
                parameters: parameters.map(Into::into),
                ..Link::default()
            };
            before.epoch == 0 && !system::is_child()
        };
        let time = if is_first { Duration::ZERO } else { patience };
        let linked = self.connect(time, patience).map_err(|failure| refuse(failure.reason()))?;
        self.is_open.store(true, Ordering::Release);
        drop(linked);
        Ok(())
    }

    /// Ends the application at the agent.
    pub fn end(&self) {
        self.is_open.store(false, Ordering::Release);
        let deadline = self.deadline();
        if let Ok(mut linked) = self.take_within(Duration::ZERO, ATTEMPT) {
            let _ = linked.connection.ask(&Request::End, deadline.end);
        }
        lock(&self.link).name = None;
        lock(&self.idle).clear();
    }

    /// Returns whether the application is between `C_Initialize` and `C_Finalize`.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns whether the last attempt to connect failed.
    pub fn is_away(&self) -> bool {
        lock(&self.link).lost.is_some()
    }

    /// Returns the deadline of a call that begins now.
    pub fn deadline(&self) -> Deadline {
        self.deadline_since(Instant::now())
    }

    /// Returns the deadline of a call that began at this time.
    pub fn deadline_since(&self, start: Instant) -> Deadline {
        Deadline { start, end: start + lock(&self.link).patience }
    }

    /// Returns a connection that no other call uses. A call of before `C_Finalize` does not go on
    /// after the next `C_Initialize`.
    pub fn take(&self, deadline: Deadline) -> Result<Linked<'_>> {
        if lock(&self.link).since.is_some_and(|since| deadline.start < since) {
            return Err(Error::NotInitialized);
        }
        let left = deadline.left();
        self.take_within(left, left).map_err(|failure| self.failed(&failure))
    }

    /// Returns a connection if the agent answers now. It does not wait for an agent that has ended,
    /// because another one goes on.
    #[cfg(feature = "split")]
    pub fn take_now(&self, most: Duration) -> Result<Linked<'_>> {
        self.take_within(Duration::ZERO, most).map_err(|failure| self.failed(&failure))
    }

    /// Returns a connection if an agent answers now. `None` if none does: what ends without an
    /// agent must not go on at one that was only away, so another connection begins another
    /// application. Waits for an agent that lives.
    pub fn take_or_leave(&self, deadline: Deadline) -> Result<Option<Linked<'_>>> {
        loop {
            match self.take_within(Duration::ZERO, ATTEMPT.min(deadline.left())) {
                Ok(linked) => return Ok(Some(linked)),
                Err(Failure::Busy(_) | Failure::Closed(_)) if !deadline.left().is_zero() => {
                    thread::sleep(RETRY);
                }
                Err(failure @ (Failure::Busy(_) | Failure::Closed(_))) => return Err(self.failed(&failure)),
                Err(Failure::Refused(_) | Failure::Lost(_)) => {
                    let mut link = lock(&self.link);
                    (link.name, link.epoch) = (None, link.epoch + 1);
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the error of a call without a connection. If the agents refuse this client, says so
    /// once.
    fn failed(&self, failure: &Failure) -> Error {
        if let Failure::Refused(reason) = failure
            && !std::mem::replace(&mut lock(&self.link).is_said, true)
        {
            refuse(reason);
        }
        Error::DeviceError
    }

    fn take_within(&self, time: Duration, turn: Duration) -> Result<Linked<'_>, Failure> {
        self.follow_user(turn);
        let epoch = lock(&self.link).epoch;
        while let Some(line) = { lock(&self.idle).pop() } {
            if line.epoch == epoch && !line.connection.channel.is_dead() {
                return Ok(Linked { pool: self, line: Some(line) });
            }
        }
        self.connect(time, turn)
    }

    /// If the process has changed its user, goes on as that one. The agent allows it while it has a
    /// connection of before, so the module asks at the first call. If the agent refuses, the
    /// connections of before stay. Waits for other threads and the agent for the time `turn`.
    fn follow_user(&self, turn: Duration) {
        let user = system::user();
        let is_other = |link: &Link| user.is_some() && link.name.is_some() && link.user != user;
        if !is_other(&lock(&self.link)) {
            return;
        }
        let end = Instant::now() + turn;
        let Some(_turn) = self.connects.lock_until(end) else { return };
        let (address, before) = {
            let link = lock(&self.link);
            if !is_other(&link) {
                return;
            }
            (link.addresses[link.at].clone(), link.epoch)
        };
        let joined = self.join(&address, Attempt::brief(end));
        if matches!(joined, Err(Failure::Busy(_))) {
            return;
        }
        lock(&self.link).user = user;
        if let Ok(Some(line)) = joined {
            let mut idle = lock(&self.idle);
            idle.retain(|_| line.epoch == before);
            idle.push(line);
        }
    }

    /// Connects to an agent, the one that answered last first, and joins the application there. If
    /// the agent does not know the application, a new one begins. Tries at least once, unless no
    /// agent has answered for the time that a call waits: then calls fail at once, and one of them
    /// tries after each [`PROBE`]. Waits for an agent that does not answer for the time `time`. Its
    /// attempts and those of other threads, and an agent that is busy or ends, have the time
    /// `turn`.
    /// Returns the reason of a failure.
    fn connect(&self, time: Duration, turn: Duration) -> Result<Linked<'_>, Failure> {
        let start = Instant::now();
        loop {
            let away = || Failure::Lost("no agent answers".to_owned());
            let guard = self.connects.lock_until(start + turn).ok_or_else(away)?;
            let is_away = {
                let link = lock(&self.link);
                let is_away = link.lost.is_some_and(|lost| lost.elapsed() > link.patience);
                if is_away && link.tried.is_some_and(|tried| tried.elapsed() < PROBE) {
                    return Err(away());
                }
                is_away
            };
            let failure = match self.attempt(start + turn) {
                Ok(line) => return Ok(Linked { pool: self, line: Some(line) }),
                Err(failure) => failure,
            };
            drop(guard);
            let time = match failure {
                Failure::Refused(_) => Duration::ZERO,
                Failure::Busy(_) | Failure::Closed(_) => turn,
                Failure::Lost(_) => time,
            };
            if is_away || start.elapsed() >= time {
                return Err(failure);
            }
            thread::sleep(RETRY);
        }
    }

    /// Tries each agent once, until the time `end`. Those that do not answer leave time for the
    /// others.
    fn attempt(&self, end: Instant) -> Result<Line, Failure> {
        let (addresses, first) = {
            let link = lock(&self.link);
            (Arc::clone(&link.addresses), link.at)
        };
        let start = Instant::now();
        let mut failure = None;
        let count = addresses.len();
        for (tried, at) in (first..first + count).map(|at| at % count).enumerate() {
            let now = Instant::now();
            let left = count - tried;
            let share = end.saturating_duration_since(now) / left as u32;
            let mut attempt = Attempt::brief(now + share.max(LEAST));
            if left == 1 {
                // Another connection would be the last one in the queue of the agent.
                attempt.step = Duration::MAX;
            }
            match self.link_to(&addresses[at], attempt) {
                Ok(line) => {
                    let mut link = lock(&self.link);
                    (link.at, link.lost, link.tried) = (at, None, None);
                    return Ok(line);
                }
                // An agent that lives is busy for a short time, and one that ended may come back,
                // whatever the others say.
                Err(other) => {
                    failure = Some(match failure {
                        Some(before) => other.or(before),
                        None => other,
                    });
                }
            }
        }
        let failure = failure.unwrap_or_else(|| Failure::Refused("no address".to_owned()));
        let mut link = lock(&self.link);
        if !matches!(failure, Failure::Busy(_)) {
            link.lost.get_or_insert(start);
        }
        link.tried = Some(Instant::now());
        Err(failure)
    }

    fn link_to(&self, address: &Address, attempt: Attempt) -> Result<Line, Failure> {
        if let Some(line) = self.join(address, attempt)? {
            return Ok(line);
        }
        // The agent has ended, or is another one.
        let (user, single) = (system::user(), lock(&self.link).single);
        let request = Request::Start { version: wire::VERSION, single };
        match Self::ask_first(address, &request, attempt)? {
            (connection, Some((name, longest))) => Ok(self.begun(connection, name, longest, user)),
            _ => Err(Failure::Lost(format!("{address}: an answer of another protocol"))),
        }
    }

    /// Joins the application. `None` if the agent does not know it. If this process had another
    /// user, the agent answers with the name of a new application.
    fn join(&self, address: &Address, attempt: Attempt) -> Result<Option<Line>, Failure> {
        let (name, epoch) = {
            let link = lock(&self.link);
            (link.name, link.epoch)
        };
        let (Some(application), user) = (name, system::user()) else { return Ok(None) };
        let request = Request::Join { version: wire::VERSION, application };
        Ok(match Self::ask_first(address, &request, attempt)? {
            (connection, Some((name, longest))) if name == application => {
                Some(Line { connection, epoch, longest })
            }
            (connection, Some((name, longest))) => Some(self.begun(connection, name, longest, user)),
            (_, None) => None,
        })
    }

    /// Sends the first request of a new connection. Returns the name of the application and the
    /// greatest length of a message, unless the agent says something else.
    fn ask_first(
        address: &Address,
        request: &Request<'_>,
        attempt: Attempt,
    ) -> Result<(Connection, Option<(Name, u64)>), Failure> {
        let failed = |error| Failure::of(address, &error);
        let mut connection = Connection::open(address, attempt).map_err(failed)?;
        let started = match connection.ask_first(request, attempt).map_err(|lost| failed(lost.error))? {
            Reply::Started { version, .. } if version != wire::VERSION => {
                return Err(Failure::Refused(wire::wrong_version(wire::VERSION, version)));
            }
            Reply::Started { application, longest, .. } if longest >= wire::MIN_LONGEST => {
                Some((application, longest))
            }
            Reply::Refused(reason) => return Err(Failure::Refused(reason.to_owned())),
            Reply::Busy => {
                let reason = format!("{address}: no room for another connection of this client");
                return Err(Failure::Busy(reason));
            }
            _ => None,
        };
        Ok((connection, started))
    }

    /// Notes that an application began at an agent, for a process with this user.
    fn begun(&self, connection: Connection, name: Name, longest: u64, user: Option<u32>) -> Line {
        let mut link = lock(&self.link);
        (link.name, link.user) = (Some(name), user);
        link.epoch += 1;
        Line { connection, epoch: link.epoch, longest }
    }
}

impl Linked<'_> {
    /// Drops a connection that failed, and those that wait: the agent has ended.
    pub fn lost(mut self) {
        self.line = None;
        lock(&self.pool.idle).clear();
    }

    /// Ends the frame. Fails if the agent takes no message of this length.
    pub fn finish(&mut self) -> Result<(), Unfit> {
        let longest = self.longest;
        let frame = self.connection.frame();
        if frame.len() as u64 > longest {
            return Err(Unfit::TooLong);
        }
        wire::finish(frame)
    }
}

impl Deref for Linked<'_> {
    type Target = Line;

    fn deref(&self) -> &Line {
        // Only `lost` takes the line, and it takes this value too.
        self.line.as_ref().expect("a connection")
    }
}

impl DerefMut for Linked<'_> {
    fn deref_mut(&mut self) -> &mut Line {
        self.line.as_mut().expect("a connection")
    }
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        line.connection.channel.wipe();
        let mut idle = lock(&self.pool.idle);
        idle.iter_mut().for_each(|other| other.connection.channel.rest());
        if idle.len() < KEPT && self.pool.is_open() && line.connection.is_answered {
            idle.push(line);
        }
    }
}

/// Says on standard error why there is no agent: the code of `C_Initialize` does not.
fn refuse(reason: &str) -> Error {
    // The agent's words go to a terminal, and a pipe takes a short line as a whole.
    system::say(&format!("libjeton_client: no agent: {}\n", log::plain(reason)));
    Error::GeneralError
}
