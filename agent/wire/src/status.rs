//! What an agent says of itself to its administrator: root, or its own user.

use std::fmt::{self, Write};
use std::io;
use std::path::Path;

use jeton_words::bounded::at_most;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::system::connect;
use crate::{MAX_MESSAGE, Reply, Request, decode, encode, take as take_value};

/// Asks the agent at this socket what it counts. This and the functions below fail with
/// `PermissionDenied` if it refuses, and with `InvalidData` if it speaks another protocol.
pub fn status(socket: &Path) -> io::Result<Status> {
    ask(socket, &Request::Status, |reply, rest| match reply {
        Reply::Status => decode(rest).ok(),
        _ => None,
    })
}

/// Asks for the applications, the oldest first.
pub fn applications(socket: &Path) -> io::Result<Vec<OfApplication>> {
    ask(socket, &Request::Applications, |reply, rest| match reply {
        Reply::Applications => decode::<Applications>(rest).ok().map(|Applications(all)| all),
        _ => None,
    })
}

/// Ends the connections of a client, or of all clients, and makes their tickets void. Returns the
/// number of connections; `None` if there was no such client since the start, and only its tickets
/// are void.
pub fn lock(socket: &Path, client: Option<&str>) -> io::Result<Option<u64>> {
    ask(socket, &Request::Lock(client), |reply, _| match reply {
        Reply::Done(connections) => Some(Some(connections)),
        Reply::Unknown => Some(None),
        _ => None,
    })
}

/// `take` gets the reply and what follows it.
fn ask<T>(
    socket: &Path,
    request: &Request<'_>,
    take: impl FnOnce(Reply<'_>, &[u8]) -> Option<T>,
) -> io::Result<T> {
    let foreign = || io::Error::new(io::ErrorKind::InvalidData, "an answer of another protocol");
    let mut channel = Channel::new(connect(socket)?, 1);
    encode(request, &mut channel.frame).map_err(|_| io::ErrorKind::InvalidInput)?;
    channel.send()?;
    channel.receive(MAX_MESSAGE, |_| true)?;
    let mut rest = channel.parts().0;
    match take_value(&mut rest) {
        Ok(Reply::Refused(reason)) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
        Ok(reply) => take(reply, rest).ok_or_else(foreign),
        Err(_) => Err(foreign()),
    }
}

/// The greatest number of items in a list of an answer.
const MOST: usize = 1 << 16;

/// The applications in an answer.
#[derive(Deserialize)]
struct Applications(#[serde(deserialize_with = "at_most::<MOST, _, _>")] Vec<OfApplication>);

/// What an agent counts. The numbers of calls begin with its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// How long the agent has run, in seconds.
    pub seconds: u64,
    /// The applications that are connected.
    pub applications: u64,
    /// Their connections.
    pub connections: u64,
    /// Their open sessions.
    pub sessions: u64,
    /// Those that have been connected, in the order of their names.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub clients: Vec<OfClient>,
    /// The tokens that are initialised.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub tokens: Vec<OfToken>,
    /// The requests.
    pub requests: u64,
    /// How long requests took, without the time of the socket.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub times: Vec<Quantile>,
}

/// What a client has done: a user of the host, or the holder of a certificate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfClient {
    /// The client, as in the audit log.
    pub client: String,
    /// The name of its user, if this host knows it.
    pub user: Option<String>,
    /// The number of its rule in the file, from 1. `None` if there are no rules, or none allows it.
    pub rule: Option<u64>,
    /// The open connections.
    pub connections: u64,
    /// The calls of functions.
    pub calls: u64,
    /// The calls that a rule refused, and the tickets that did not log in.
    pub refused: u64,
    /// The refused connections: no rule allows them, or the client has too many.
    pub refused_connections: u64,
}

/// An application that is connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfApplication {
    /// The client, as in the audit log.
    pub client: String,
    /// The name of its user, if this host knows it.
    pub user: Option<String>,
    /// The process that started it. `None` if it is in another container or on another host.
    pub process: Option<u32>,
    /// The open sessions.
    pub sessions: u64,
    /// The open connections.
    pub connections: u64,
    /// How long it has been connected, in seconds.
    pub seconds: u64,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfToken {
    /// The label.
    pub label: String,
    /// The serial number.
    pub serial: String,
    /// The PIN of the user.
    pub pin: PinState,
    /// The PIN of the SO.
    pub so_pin: PinState,
}

/// What the counter of wrong PINs says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinState {
    /// There is no PIN.
    Unset,
    /// The last PIN was right.
    Good,
    /// The last PIN was wrong.
    Wrong,
    /// One more wrong PIN locks it.
    LastTry,
    /// It is locked.
    Locked,
}

/// A time that a part of the requests did not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// The part, from 0 to 1.
    pub part: f64,
    /// The time in seconds; the true one is at most a quarter less. `None` without requests.
    pub seconds: Option<f64>,
}

impl Status {
    /// Returns the figures in the text format of Prometheus.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        // A `String` takes everything.
        let _ = self.write_prometheus(&mut text);
        text
    }

    fn write_prometheus(&self, text: &mut String) -> fmt::Result {
        let describe = |text: &mut String, name: &str, kind: &str, help: &str| {
            writeln!(text, "# HELP jeton_agent_{name} {help}\n# TYPE jeton_agent_{name} {kind}")
        };
        for (name, help, value) in [
            ("uptime_seconds", "The time since the start.", self.seconds),
            ("applications", "Applications that are connected.", self.applications),
            ("connections", "Connections.", self.connections),
            ("sessions", "Open sessions.", self.sessions),
        ] {
            describe(text, name, "gauge", help)?;
            writeln!(text, "jeton_agent_{name} {value}")?;
        }
        let mut count = |name: &str, help: &str, value: fn(&OfClient) -> u64| {
            describe(text, name, "counter", help)?;
            for client in &self.clients {
                // The escapes of a label's value are those of a string of Rust for `"` and `\`. A
                // name has no other character that either of them escapes.
                writeln!(text, "jeton_agent_{name}{{client={:?}}} {}", client.client, value(client))?;
            }
            Ok(())
        };
        count("calls_total", "Calls.", |client| client.calls)?;
        count("refused_total", "Calls that a rule refused.", |client| client.refused)?;
        let refused = |client: &OfClient| client.refused_connections;
        count("refused_connections_total", "Refused connections.", refused)?;
        describe(text, "locked", "gauge", "Whether the PIN of a user is locked.")?;
        for token in &self.tokens {
            for (user, pin) in [("user", token.pin), ("so", token.so_pin)] {
                let (serial, locked) = (&token.serial, u8::from(pin == PinState::Locked));
                writeln!(text, "jeton_agent_locked{{token={serial:?},pin={user:?}}} {locked}")?;
            }
        }
        let name = "request_seconds";
        describe(text, name, "summary", "How long requests took, without the time of the socket.")?;
        for Quantile { part, seconds } in &self.times {
            writeln!(text, "jeton_agent_{name}{{quantile=\"{part}\"}} {:.9}", seconds.unwrap_or(f64::NAN))?;
        }
        writeln!(text, "jeton_agent_{name}_count {}", self.requests)
    }
}
