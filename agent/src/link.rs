//! What the front says to the processes that it starts, and what they say to it: packets on a pair
//! of sockets, each with at most one descriptor.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use jeton::functions::{PinMark, User};
use jeton_agent_wire::Application;
use jeton_words::token::Function;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::rules::Rule;
use crate::tls::Section;

/// The longest packet in bytes. It is less than the least buffer of a socket.
const LONGEST: usize = 128 << 10;

/// One end of the pair.
pub struct Link(OwnedFd);

/// What a worker learns.
#[derive(Serialize, Deserialize)]
pub enum ToWorker {
    /// The first packet. It has a socket for records if there is an audit log.
    Start(Box<Start>),
    /// A connection of the client, with its socket.
    Connection(u64),
    /// The rules allow this connection no longer.
    End(u64),
    /// To stop in order: see [`Worker::stop`](crate::worker::Worker::stop).
    Stop,
    /// To send a [`Report`].
    Report,
    /// The answer to a question.
    Answer(u64, Answer),
}

/// For whom a worker works.
#[derive(Serialize, Deserialize)]
pub struct Start {
    /// The text by which the logs know the client.
    pub client: String,
    /// The rule of the client; `None` if it may do everything.
    pub rule: Option<Rule>,
    /// The key of the client's tickets.
    pub key: [u8; 32],
    /// The text of the configuration, which no worker reads itself.
    pub configuration: String,
}

/// What the front learns from a worker.
#[derive(Serialize, Deserialize)]
pub enum ToFront {
    /// The process is ready. Which parts of its sandbox this system does not have.
    Ready(Vec<String>),
    /// The worker has the socket of another connection.
    Taken,
    /// A connection has ended.
    Closed(u64),
    /// A connection started an application, which allows no threads of the module's own if it says
    /// so.
    Began(u64, Application, bool),
    /// An application has ended.
    Ended(Application),
    /// A question of this number.
    Ask(u64, Question),
    /// What a question got is given back, or its answer is not awaited any more.
    Done(u64, Outcome),
    /// What the worker counts. Its applications are in the packets before.
    Report(Box<Report>),
    /// Applications of the next report, at most [`PART`] of them.
    Applications(Vec<(Application, Counted)>),
    /// A host with a certificate of these names connected. The packet has a socket to its process.
    Host(Vec<String>),
    /// A monitor asks for the figures. The packet has the pipe for them.
    Figures,
}

/// What a worker asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// To try a PIN of this user of the token with this serial number and mark of the PIN.
    Try(String, User, PinMark),
    /// To run the KDF of a PIN.
    Run,
    /// The PIN of the rule's `login`, for the token with this serial number and mark of the PIN.
    Pin(String, PinMark),
    /// Whether the process of a connection was another client, which started this application.
    Before(u64, Application),
}

/// What the front answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Until [`ToFront::Done`].
    Granted,
    /// No.
    Refused,
    /// The PIN, which may be tried until [`ToFront::Done`].
    Pin(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Why there is none.
    NoPin(String),
    /// The client that the process was before, the key of its tickets, and whether its application
    /// allows no threads of the module's own.
    Before(String, [u8; 32], bool),
}

/// How a try or a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The PIN was right.
    Right,
    /// The PIN was wrong.
    Wrong,
    /// It is not known whether the PIN is right, or there was none.
    Neither,
}

/// What a worker counts since its start.
#[derive(Default, Serialize, Deserialize)]
pub struct Report {
    /// The calls of each function that has one, and those that failed.
    pub functions: Vec<(Function, [u64; 2])>,
    /// The calls with each mechanism that has one, by its place in the list of mechanisms.
    pub mechanisms: Vec<(u16, u64)>,
    /// The wrong PINs.
    pub wrong_pins: u64,
    /// The logins that failed.
    pub failed_logins: u64,
    /// The calls that a rule refused, and the tickets that did not log in.
    pub refused: u64,
    /// The refused connections: the client has no memory, or no turn, for one more.
    pub refused_connections: u64,
    /// The numbers of requests in each class of times that has one.
    pub times: Vec<(u16, u64)>,
    /// The sum of their times in nanoseconds.
    pub sum: u64,
}

/// The most applications in a packet.
pub const PART: usize = 1000;

/// What a worker counts of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The open sessions.
    pub sessions: u64,
    /// The open connections.
    pub connections: u64,
    /// How long it has been connected, in seconds.
    pub seconds: u64,
}

impl Report {
    /// Adds what another worker of the client counted.
    pub fn add(&mut self, other: &Self) {
        let pair = |counts: [u64; 2], more: [u64; 2]| [counts[0] + more[0], counts[1] + more[1]];
        merge(&mut self.functions, &other.functions, pair);
        merge(&mut self.mechanisms, &other.mechanisms, |count, more| count + more);
        merge(&mut self.times, &other.times, |count, more| count + more);
        self.wrong_pins += other.wrong_pins;
        self.failed_logins += other.failed_logins;
        self.refused += other.refused;
        self.refused_connections += other.refused_connections;
        self.sum += other.sum;
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.functions.iter().map(|(_, [calls, _])| calls).sum()
    }
}

/// Adds the counts of each key of another list.
fn merge<K: Copy + Eq + Hash, C: Copy + Default>(
    counts: &mut Vec<(K, C)>,
    other: &[(K, C)],
    add: impl Fn(C, C) -> C,
) {
    let mut all: HashMap<_, _> = counts.drain(..).collect();
    for (key, more) in other {
        let count = all.entry(*key).or_default();
        *count = add(*count, *more);
    }
    counts.extend(all);
}

/// What the process that writes the audit log learns.
#[derive(Serialize, Deserialize)]
pub enum ToWriter {
    /// The first packet: the text of the configuration, and whether another such process has
    /// ended.
    Start(String, bool),
    /// A worker. The packet has the socket from which its records come.
    Worker(Source),
    /// No other worker comes.
    Stop,
}

/// Who sends records.
#[derive(Clone, Serialize, Deserialize)]
pub struct Source {
    /// The text by which the logs know the client.
    pub client: String,
    /// To whom the client counts.
    pub owner: String,
    /// The process of the worker.
    pub process: u32,
}

/// What the process for other hosts learns: where they connect. The first packet has the socket
/// that listens there.
#[derive(Serialize, Deserialize)]
pub struct ToDoor(pub Section);

/// What the process for monitors learns.
#[derive(Serialize, Deserialize)]
pub enum ToMonitor {
    /// To answer at the socket in the packet.
    Listen,
}

impl Link {
    /// Returns the end of this process, and that of a process that is to start.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(own), other))
    }

    /// Returns the end that this process has as its standard input.
    pub fn inherited() -> io::Result<Self> {
        let own = io::stdin().as_fd().try_clone_to_owned()?;
        if sockopt::socket_type(&own)? != SocketType::SEQPACKET {
            return Err(io::Error::other("standard input is no socket of the agent"));
        }
        Ok(Self(own))
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a packet, with a descriptor. Waits until the other end has room, unless the flags say
    /// something else.
    pub fn send_bytes(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        flags: SendFlags,
    ) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = flags | SendFlags::NOSIGNAL;
        rustix::io::retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags))?;
        Ok(())
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_bytes(&encode(message)?, descriptor, SendFlags::empty())
    }

    /// Receives a message and its descriptor. `None` if the other end is closed.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut bytes = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            let mut buffers = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.last();
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("a packet is too long"));
        }
        let message = postcard::from_bytes(&bytes[..received.bytes]).map_err(io::Error::other)?;
        Ok(Some((message, descriptor)))
    }
}

/// Returns the bytes of a packet.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() > LONGEST { Err(io::Error::other("a packet is too long")) } else { Ok(bytes) }
}
