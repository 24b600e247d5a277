//! A connection to an agent: sends a request and receives its answer.

use std::io;
use std::time::{Duration, Instant};

use jeton_agent_wire::channel::{Channel, PACE};
use jeton_agent_wire::{self as wire, Answer, MAX_FIRST, MAX_MESSAGE, Reply, Request, Unfit};

use super::address::Address;
use super::limits::{ATTEMPT, Attempt, SILENCE, STUCK, WHOLE};
use crate::system::{self, Listed};

pub struct Connection {
    _listed: Listed,
    pub channel: Channel,
    /// The number of the last request with calls.
    pub number: u32,
    /// Whether the last request has its answer. Otherwise no other one is sent.
    pub is_answered: bool,
    address: Address,
}

/// An exchange that failed.
#[derive(Debug)]
pub struct Lost {
    /// Whether the agent may have carried out the request.
    pub sent: bool,
    /// What happened.
    pub error: io::Error,
}

impl Lost {
    /// The request was not sent.
    pub fn unsent() -> Self {
        Self { sent: false, error: io::ErrorKind::NotConnected.into() }
    }

    /// Returns whether the agent closed the connection.
    pub fn is_closed(&self) -> bool {
        is_closed(&self.error)
    }

    /// The agent answered something that does not follow the protocol.
    pub fn malformed() -> Self {
        Self { sent: true, error: io::ErrorKind::InvalidData.into() }
    }

    /// Returns whether the agent answered so. It may do so again, however often it is asked.
    pub fn is_malformed(&self) -> bool {
        self.error.kind() == io::ErrorKind::InvalidData
    }
}

impl Connection {
    /// Connects in the time of an attempt.
    pub fn open(address: &Address, attempt: Attempt) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let most = processors.saturating_sub(1).max(1);
        let (channel, listed) = match address {
            Address::Unix(path) => {
                let (socket, listed) = system::connect_unix(path, attempt.left())?;
                (Channel::new(socket, most), listed)
            }
            #[cfg(feature = "tls")]
            Address::Tls(host) => {
                let (tls, listed) = host.open(attempt)?;
                (Channel::new(tls, most), listed)
            }
        };
        Ok(Self { _listed: listed, channel, number: 0, is_answered: true, address: address.clone() })
    }

    /// Returns the message to send.
    pub fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.channel.frame
    }

    /// Sends the frame and returns the message that answers it. Waits while the agent lives, and
    /// until the time `end` if there is one. A long request and its answer may take longer.
    pub fn exchange(&mut self, end: Option<Instant>) -> Result<&[u8], Lost> {
        let more = Duration::from_secs((self.frame().len() / PACE) as u64);
        let end = end.map(|end| end + more);
        self.is_answered = false;
        (self.channel.whole, self.channel.end) = (STUCK, end);
        // A request that is not whole is not carried out.
        self.channel.send().map_err(|error| Lost { sent: false, error })?;
        self.channel.whole = WHOLE;
        while let Err(error) = self.channel.receive(MAX_MESSAGE, |_| true) {
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            if error.kind() != io::ErrorKind::WouldBlock || is_over || !lives(&self.address, end) {
                return Err(Lost { sent: !self.is_unread(&error), error });
            }
        }
        self.is_answered = true;
        Ok(self.channel.parts().0)
    }

    /// Returns whether the agent of this host ended before it had read the whole request. unix(7):
    /// the error says that the other end had unread bytes when it was closed.
    fn is_unread(&self, error: &io::Error) -> bool {
        matches!(self.address, Address::Unix(_)) && error.kind() == io::ErrorKind::ConnectionReset
    }

    /// Sends a request that the agent carries out.
    pub fn ask(&mut self, request: &Request<'_>, end: Instant) -> Result<Reply<'_>, Lost> {
        wire::encode(request, self.frame()).map_err(|_| Lost::malformed())?;
        wire::decode(self.exchange(Some(end))?).map_err(|_| Lost::malformed())
    }

    /// Starts a request with this number of calls in a session of a generation: see
    /// [`Request::Calls`].
    pub fn begin(&mut self, at: (u64, u64), count: usize, object: u64) -> Result<(), Unfit> {
        let ((session, generation), number) = (at, self.number.wrapping_add(1));
        wire::start(self.frame());
        let request = Request::Calls { session, count: count as u8, object, number, generation };
        wire::append(&request, self.frame())
    }

    /// Sends a request with this number of calls. Returns the answers, for which it waits as
    /// [`exchange`](Self::exchange) does. Fails if they are not those of calls up to the first one
    /// that failed.
    pub fn exchange_calls(&mut self, count: usize, end: Option<Instant>) -> Result<Vec<Answer<'_>>, Lost> {
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        let mut rest = self.exchange(end)?;
        let mut answers: Vec<Answer<'_>> = Vec::with_capacity(count);
        let mut has_failed = !matches!(wire::take(&mut rest), Ok(Reply::Answers(of)) if of == number);
        while !rest.is_empty() && !has_failed && answers.len() < count {
            let answer: Answer<'_> = wire::take(&mut rest).map_err(|_| Lost::malformed())?;
            if answer.kept.is_some_and(|kept| kept.len() > wire::MAX_KEPT) {
                return Err(Lost::malformed());
            }
            has_failed = answer.error().is_some();
            answers.push(answer);
        }
        let is_whole = answers.len() == count || has_failed && !answers.is_empty();
        if rest.is_empty() && is_whole { Ok(answers) } else { Err(Lost::malformed()) }
    }

    /// Sends the first request of a connection, which the agent answers at once.
    pub fn ask_first(&mut self, request: &Request<'_>, attempt: Attempt) -> Result<Reply<'_>, Lost> {
        wire::encode(request, self.frame()).map_err(|_| Lost::malformed())?;
        let time = attempt.left();
        self.channel.whole = time;
        let limited = self.channel.limit(time, time);
        limited.and_then(|()| self.channel.send()).map_err(|error| Lost { sent: false, error })?;
        let received = self.channel.receive(MAX_FIRST, |_| true);
        received
            .and_then(|()| self.channel.limit(SILENCE, STUCK))
            .map_err(|error| Lost { sent: true, error })?;
        wire::decode(self.channel.parts().0).map_err(|_| Lost::malformed())
    }
}

/// Returns whether the agent closed the connection.
pub fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(error.kind(), Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe)
}

#[cfg(feature = "tls")]
pub use wire::tls::is_final;

/// Without TLS, no error is final.
#[cfg(not(feature = "tls"))]
pub fn is_final(_: &io::Error) -> bool {
    false
}

/// Returns whether an agent answers on a new connection, or closes it because it has no room for
/// one more. Waits until the time `end` if there is one.
fn lives(address: &Address, end: Option<Instant>) -> bool {
    let latest = Instant::now() + ATTEMPT;
    let end = end.map_or(latest, |end| end.min(latest));
    let nothing = Request::Join { version: wire::VERSION, application: [0; 32] };
    let attempt = Attempt::brief(end);
    let Ok(mut other) = Connection::open(address, attempt) else { return false };
    match other.ask_first(&nothing, attempt) {
        Ok(_) => true,
        Err(lost) => lost.is_closed(),
    }
}
