//! What `jeton-agent` and its client module say to each other: `docs/agent.md` describes it.
//!
//! A message is a length of four bytes, little-endian, and a value in the encoding of postcard. The
//! client sends a [`Request`] and the agent one [`Reply`]. Neither side keeps anything between two
//! messages but the application that a connection belongs to.

#![forbid(unsafe_code)]

use jeton_words::error::Error;
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

pub mod call;
pub mod channel;
pub mod file;
mod socket_timeout;
pub mod spin;
pub mod split;
pub mod status;
#[cfg_attr(windows, path = "system/windows.rs")]
#[cfg_attr(not(windows), path = "system/unix.rs")]
mod system;
#[cfg(feature = "tls")]
pub mod tls;

pub use call::{Answer, Call, Outcome, State};
pub use status::{OfApplication, Status};

/// The version of the protocol. An agent speaks one version and tells it in its first reply.
pub const VERSION: u16 = 5;
/// The greatest length of a message in bytes.
pub const MAX_MESSAGE: usize = 1 << 27;
/// Every agent takes messages of this length.
pub const MIN_LONGEST: u64 = 1 << 16;
/// The greatest length of the first message of a connection, before the agent knows the peer, and
/// of its answer.
pub const MAX_FIRST: usize = 512;
/// The greatest number of calls in a request.
pub const MAX_CALLS: usize = 8;
/// The greatest length of what a client keeps for another agent.
pub const MAX_KEPT: usize = 1 << 12;

/// The name of an application, by which a further connection joins it: random bytes.
pub type Application = [u8; 32];

/// What a client asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request<'a> {
    /// The first message of a connection: a new application.
    Start {
        /// [`VERSION`]
        version: u16,
        /// Whether the application may not have threads of the module's own (`C_Initialize`).
        single: bool,
    },
    /// The first message of a connection: another connection of an application. If the peer is the
    /// process that started it, but another client now, a new application begins, which goes on
    /// with the tickets of the other client. The answer has its name.
    Join {
        /// [`VERSION`]
        version: u16,
        /// The application.
        application: Application,
    },
    /// Calls of functions in one session (0 for functions without one): this number of [`Call`]s
    /// follows. A call that fails is the last one that is carried out.
    Calls {
        /// The session.
        session: u64,
        /// The number of calls, at most [`MAX_CALLS`].
        count: u8,
        /// The handle of the session object that the call makes again after a restart; otherwise 0.
        object: u64,
        /// The number of this request on its connection, from 1. A request that arrives twice is
        /// not carried out twice.
        number: u32,
        /// The generation of the session: it grows when an answer is lost. The first request of a
        /// generation ends the operations of the session. A request of an earlier one is late, and
        /// is not carried out. Without a session: the [`Opening`], or 0 if the call opens none.
        generation: u64,
    },
    /// `C_Finalize`: ends the application.
    End,
    /// Logs in with a ticket that an agent made before it ended.
    Resume {
        /// A session on the token.
        session: u64,
        /// The ticket.
        #[serde(borrow)]
        ticket: &'a Bytes,
    },
    /// Asks for the figures of the agent. Only for the user of the agent and root, as what follows.
    Status,
    /// Asks for the applications.
    Applications,
    /// Ends the connections of a client, or of all clients, and makes their tickets void.
    Lock(Option<&'a str>),
    /// Asks for a step of a split key. An agent without them ends the connection.
    Split {
        /// A session on the token.
        session: u64,
        /// The step.
        #[serde(borrow)]
        ask: split::Ask<'a>,
    },
}

/// Orders the requests of an application that open a session: the number of sessions that it got so
/// before, then the number of attempts since. An application sends one at a time. A request that is
/// not greater than the last one is late, and is not carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening(pub u64);

impl Opening {
    /// The bits of the number of attempts.
    const ATTEMPTS: u32 = 24;

    /// Returns the next attempt to open a session.
    pub const fn again(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns what is before the first attempt of the next session.
    pub const fn done(self) -> Self {
        Self((self.0 >> Self::ATTEMPTS).wrapping_add(1) << Self::ATTEMPTS)
    }

    /// Returns whether both are attempts for the same session: the answer of the first is lost.
    pub const fn repeats(self, other: Self) -> bool {
        self.0 >> Self::ATTEMPTS == other.0 >> Self::ATTEMPTS
    }
}

/// What the agent answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply<'a> {
    /// To [`Request::Start`] and [`Request::Join`].
    Started {
        /// The version of the agent.
        version: u16,
        /// The application.
        application: Application,
        /// The greatest length of a message that this client's memory has room for.
        longest: u64,
    },
    /// There is no such application or client, or the peer has no right to it.
    Unknown,
    /// The peer has no right to this, or the limits are reached. The reason.
    Refused(&'a str),
    /// To [`Request::Calls`], with its number: an [`Answer`] follows for each call that was carried
    /// out.
    Answers(u32),
    /// To [`Request::Lock`]: the number of connections that ended. To [`Request::End`]: 0.
    Done(u64),
    /// To [`Request::Status`]: a [`Status`] follows.
    Status,
    /// To [`Request::Applications`]: a list of [`OfApplication`] follows, the oldest first.
    Applications,
    /// To [`Request::Resume`].
    Resumed(Result<(), Error>),
    /// There is no room for another connection of this client now.
    Busy,
    /// To [`Request::Resume`] with the ticket of the client that the peer was before: the ticket
    /// has logged in, and this one takes its place.
    Renewed(#[serde(borrow)] &'a Bytes),
    /// To [`Request::Split`].
    Split(#[serde(borrow)] Result<split::Told<'a>, Error>),
}

/// The number of bytes of a length.
pub const HEADER: usize = 4;

/// A message that does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Malformed {
    /// Fails if the condition is false.
    #[inline]
    pub const fn unless(condition: bool) -> Result<(), Self> {
        if condition { Ok(()) } else { Err(Self) }
    }
}

/// Says which of both programs is too old, by the versions of the protocol that they speak.
pub fn wrong_version(module: u16, agent: u16) -> String {
    let older = if module < agent { "module" } else { "agent" };
    format!(
        "the client module speaks version {module} of the protocol and the agent version {agent}: \
         update the {older}, or start its program again"
    )
}

/// Starts a frame: room for the length.
pub fn start(frame: &mut Vec<u8>) {
    channel::wipe(frame);
    frame.clear();
    frame.extend([0; HEADER]);
}

/// Why a value was not appended to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// The frame would be longer than [`MAX_MESSAGE`].
    TooLong,
    /// This process has no memory for it.
    NoMemory,
}

impl From<Unfit> for Malformed {
    fn from(_: Unfit) -> Self {
        Self
    }
}

/// A frame that grows by trying, so that a long value is an error and not the end of the process.
struct Growing<'a> {
    frame: &'a mut Vec<u8>,
    failure: &'a mut Unfit,
}

impl Flavor for Growing<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let full = postcard::Error::SerializeBufferFull;
        if self.frame.len() + bytes.len() > HEADER + MAX_MESSAGE {
            return Err(full);
        }
        if self.frame.try_reserve(bytes.len()).is_err() {
            *self.failure = Unfit::NoMemory;
            return Err(full);
        }
        self.frame.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends a value.
pub fn append(value: &impl Serialize, frame: &mut Vec<u8>) -> Result<(), Unfit> {
    let mut failure = Unfit::TooLong;
    postcard::serialize_with_flavor(value, Growing { frame, failure: &mut failure }).map_err(|_| failure)
}

/// Ends a frame: sets the length. Fails if the message is longer than [`MAX_MESSAGE`].
pub fn finish(frame: &mut [u8]) -> Result<(), Unfit> {
    let len = frame.len() - HEADER;
    if len > MAX_MESSAGE {
        return Err(Unfit::TooLong);
    }
    frame[..HEADER].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(())
}

/// Makes a frame of one value.
pub fn encode(value: &impl Serialize, frame: &mut Vec<u8>) -> Result<(), Unfit> {
    start(frame);
    append(value, frame)?;
    finish(frame)
}

/// Returns the length in a header. Fails if it is more than `limit`.
pub fn length(header: [u8; HEADER], limit: usize) -> Result<usize, Malformed> {
    let len = u32::from_le_bytes(header) as usize;
    if len <= limit { Ok(len) } else { Err(Malformed) }
}

/// Decodes the next value of a message.
pub fn take<'a, T: Deserialize<'a>>(message: &mut &'a [u8]) -> Result<T, Malformed> {
    let (value, rest) = postcard::take_from_bytes(message).map_err(|_| Malformed)?;
    *message = rest;
    Ok(value)
}

/// Decodes a message of one value.
pub fn decode<'a, T: Deserialize<'a>>(mut message: &'a [u8]) -> Result<T, Malformed> {
    let value = take(&mut message)?;
    if message.is_empty() { Ok(value) } else { Err(Malformed) }
}
