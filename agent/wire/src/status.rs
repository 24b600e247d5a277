//! What an agent says of itself to its administrator, at a socket of its own.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jeton_words::bounded::at_most;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::system::connect;
use crate::{MAX_MESSAGE, Reply, Request, decode, encode, take as take_value};

/// How long an agent may take for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end of the name of a socket of administrators.
const ADMINISTRATOR: &str = "admin";

/// Returns the socket of administrators beside that of clients.
pub fn administrator(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".");
    name.push(ADMINISTRATOR);
    name.into()
}

/// Returns whether this is a socket of administrators.
pub fn is_administrator(socket: &Path) -> bool {
    socket.extension().is_some_and(|end| end == ADMINISTRATOR)
}

/// Asks the agent of this socket of clients what it counts. This and the functions below fail with
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
    let mut channel = exchange(socket, request).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the agent does not answer")
        }
        _ => error,
    })?;
    let mut rest = channel.parts().0;
    match take_value(&mut rest) {
        Ok(Reply::Refused(reason)) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
        Ok(reply) => take(reply, rest).ok_or_else(foreign),
        Err(_) => Err(foreign()),
    }
}

/// Returns a channel with the answer, or fails after [`PATIENCE`].
fn exchange(socket: &Path, request: &Request<'_>) -> io::Result<Channel> {
    let end = Instant::now() + PATIENCE;
    let mut channel = Channel::new(connect(&administrator(socket), PATIENCE)?, 1);
    (channel.whole, channel.end) = (PATIENCE, Some(end));
    encode(request, &mut channel.frame).map_err(|_| io::ErrorKind::InvalidInput)?;
    channel.limit(PATIENCE, PATIENCE)?;
    channel.send()?;
    channel.receive(MAX_MESSAGE, |_| true)?;
    Ok(channel)
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
    /// What keeps the processes of clients apart elsewhere, and this system does not have.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub missing: Vec<String>,
    /// The sum of the times of requests in seconds.
    pub sum: f64,
    /// The same times as the quantiles.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub buckets: Vec<Bucket>,
    /// The functions that were called.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub functions: Vec<OfFunction>,
    /// The mechanisms that were named in calls.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub mechanisms: Vec<OfMechanism>,
    /// The processes of clients, and the most at a time.
    pub workers: [u64; 2],
    /// The most connections at a time.
    pub most_connections: u64,
    /// The processes of clients that ended by themselves.
    pub failed_workers: u64,
    /// The directories to which the agent writes.
    #[serde(deserialize_with = "at_most::<MOST, _, _>")]
    pub directories: Vec<OfDirectory>,
    /// The directory of backups, and when the newest of them was written, in seconds since 1970.
    pub backup: Option<(String, u64)>,
}

/// The requests that took at most a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The time in seconds.
    pub seconds: f64,
    /// Their number.
    pub requests: u64,
}

/// A function of PKCS#11.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfFunction {
    /// Its name.
    pub function: String,
    /// The calls.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
}

/// A mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfMechanism {
    /// Its name.
    pub mechanism: String,
    /// The calls that named it.
    pub calls: u64,
}

/// The file system of a directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfDirectory {
    /// The directory.
    pub path: String,
    /// The bytes that the agent may still write.
    pub free: u64,
    /// All bytes.
    pub size: u64,
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
    /// The refused connections: no rule allows them, or the client has too many, or no memory or no
    /// turn for one more.
    pub refused_connections: u64,
    /// The wrong PINs.
    pub wrong_pins: u64,
    /// The logins that failed.
    pub failed_logins: u64,
}

impl OfClient {
    /// Returns a client that has done nothing.
    pub fn new(client: &str) -> Self {
        let (user, rule, connections, calls, refused) = Default::default();
        let (refused_connections, wrong_pins, failed_logins) = Default::default();
        let client = client.to_owned();
        Self {
            client,
            user,
            rule,
            connections,
            calls,
            refused,
            refused_connections,
            wrong_pins,
            failed_logins,
        }
    }
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
        let mut put = |name: &str, kind: &str, help: &str, rows: Vec<(String, String)>| {
            writeln!(text, "# HELP jeton_agent_{name} {help}\n# TYPE jeton_agent_{name} {kind}")?;
            rows.iter().try_for_each(|(labels, value)| writeln!(text, "jeton_agent_{name}{labels} {value}"))
        };
        let one = |value: u64| vec![(String::new(), value.to_string())];
        let [workers, most_workers] = self.workers;
        for (name, help, value) in [
            ("uptime_seconds", "The time since the start.", self.seconds),
            ("applications", "Applications that are connected.", self.applications),
            ("connections", "Connections.", self.connections),
            ("connections_limit", "The most connections at a time.", self.most_connections),
            ("sessions", "Open sessions.", self.sessions),
            ("workers", "Processes of clients.", workers),
            ("workers_limit", "The most processes of clients at a time.", most_workers),
            ("sandbox_missing", "Parts of the sandbox that this system lacks.", self.missing.len() as u64),
        ] {
            put(name, "gauge", help, one(value))?;
        }
        let failed = "Processes of clients that ended by themselves.";
        put("worker_failures_total", "counter", failed, one(self.failed_workers))?;
        // Under other rules since, a client has two entries. Of two values with the same labels
        // Prometheus reads the first one only.
        let of_clients = |value: Figure| {
            let mut sums = BTreeMap::<_, u64>::new();
            self.clients.iter().for_each(|of| *sums.entry(&*of.client).or_default() += value(of));
            let row = |(client, sum): (&str, u64)| (labels(&[("client", client)]), sum.to_string());
            sums.into_iter().map(row).collect()
        };
        let counters: [(&str, &str, Figure); 5] = [
            ("calls_total", "Calls.", |of| of.calls),
            ("refused_total", "Calls that a rule refused.", |of| of.refused),
            ("refused_connections_total", "Refused connections.", |of| of.refused_connections),
            ("wrong_pins_total", "Wrong PINs.", |of| of.wrong_pins),
            ("failed_logins_total", "Logins that failed.", |of| of.failed_logins),
        ];
        for (name, help, value) in counters {
            put(name, "counter", help, of_clients(value))?;
        }
        let of_functions = |value: fn(&OfFunction) -> u64| {
            let row = |of: &OfFunction| (labels(&[("function", &of.function)]), value(of).to_string());
            self.functions.iter().map(row).collect()
        };
        put("function_calls_total", "counter", "Calls of a function.", of_functions(|of| of.calls))?;
        let failed = of_functions(|of| of.failed);
        put("function_failures_total", "counter", "Calls of a function that failed.", failed)?;
        let row = |of: &OfMechanism| (labels(&[("mechanism", &of.mechanism)]), of.calls.to_string());
        let rows = self.mechanisms.iter().map(row).collect();
        put("mechanism_calls_total", "counter", "Calls that named a mechanism.", rows)?;
        let of_token = |token: &OfToken| {
            [("user", token.pin), ("so", token.so_pin)].map(|(user, pin)| {
                let of = labels(&[("token", &token.label), ("serial", &token.serial), ("pin", user)]);
                (of, u8::from(pin == PinState::Locked).to_string())
            })
        };
        let rows = self.tokens.iter().flat_map(of_token).collect();
        put("locked", "gauge", "Whether the PIN of a user is locked.", rows)?;
        let of_directories = |value: fn(&OfDirectory) -> u64| {
            let row = |of: &OfDirectory| (labels(&[("directory", &of.path)]), value(of).to_string());
            self.directories.iter().map(row).collect()
        };
        let free = of_directories(|of| of.free);
        put("free_bytes", "gauge", "The bytes that the agent may still write to a directory.", free)?;
        let size = of_directories(|of| of.size);
        put("size_bytes", "gauge", "The size of the file system of a directory.", size)?;
        let row = |(path, time): &(String, u64)| (labels(&[("directory", path)]), time.to_string());
        let rows = self.backup.iter().map(row).collect();
        put("backup_time_seconds", "gauge", "When the newest backup was written.", rows)?;
        // The parts of a histogram have names of their own.
        put(
            "request_seconds",
            "histogram",
            "How long requests took, without the time of the socket.",
            vec![],
        )?;
        for Bucket { seconds, requests } in &self.buckets {
            writeln!(text, "jeton_agent_request_seconds_bucket{{le=\"{seconds}\"}} {requests}")?;
        }
        writeln!(text, "jeton_agent_request_seconds_bucket{{le=\"+Inf\"}} {}", self.requests)?;
        writeln!(text, "jeton_agent_request_seconds_sum {}", self.sum)?;
        writeln!(text, "jeton_agent_request_seconds_count {}", self.requests)
    }
}

/// Returns a figure of a client.
type Figure = fn(&OfClient) -> u64;

/// Returns the labels of a value in the text format of Prometheus.
fn labels(labels: &[(&str, &str)]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    format!("{{{}}}", each.join(","))
}
