//! Connections to the agent.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};

use jeton_agent_protocol::MAX_MESSAGE;
use jeton_agent_protocol::channel::{Channel, is_dead};

/// The place of the agent if the environment names none.
const DEFAULT: &str = "unix:/run/jeton/agent.socket";

/// Where an agent is.
#[derive(Debug, Clone)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns the agents that the library parameters name, or else `JETON_AGENT`, separated by
    /// commas.
    pub fn all(parameters: Option<&str>) -> Result<Vec<Self>, String> {
        // The user who starts a setuid program must not choose who gets its PINs.
        // SAFETY: getauxval(3) takes a number and has no other precondition.
        let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) != 0 };
        let variable = if is_privileged { None } else { std::env::var("JETON_AGENT").ok() };
        let variable = variable.unwrap_or_default();
        let given = parameters.and_then(named).unwrap_or(&variable);
        let given = if given.is_empty() { DEFAULT } else { given };
        given.split(',').map(|one| Self::parse(one.trim())).collect()
    }

    fn parse(given: &str) -> Result<Self, String> {
        match given.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            _ => Err(format!("JETON_AGENT: {given:?} is not unix:/PATH")),
        }
    }
}

/// Returns the value of `agent='…'`, if these are the library parameters. Others, for example those
/// that NSS passes to its own module, are not for this module.
fn named(parameters: &str) -> Option<&str> {
    let value = parameters.trim().strip_prefix("agent")?.trim_start().strip_prefix('=')?.trim();
    value.strip_prefix(['\'', '"'])?.strip_suffix(['\'', '"'])
}

/// The descriptors of the connections, for a forked child, which must close them without a lock.
static OPEN: [AtomicI32; 256] = [const { AtomicI32::new(-1) }; 256];

/// Closes the connections of the parent. Called in the child of a fork, so it is async-signal-safe.
pub fn close_all() {
    for place in &OPEN {
        let descriptor = place.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: a descriptor that this library opened. The child uses no object of the
            // parent.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A connection to an agent.
pub struct Connection {
    channel: Channel<UnixStream>,
    /// The place of the descriptor in [`OPEN`].
    place: Option<&'static AtomicI32>,
}

/// An exchange that failed.
#[derive(Debug)]
pub struct Lost {
    /// Whether the agent may have carried out the request.
    pub sent: bool,
    /// What happened.
    pub error: io::Error,
}

impl Connection {
    /// Connects.
    pub fn open(address: &Address) -> io::Result<Self> {
        let Address::Unix(path) = address;
        let stream = UnixStream::connect(path)?;
        let descriptor = stream.as_raw_fd();
        let free = |place: &&AtomicI32| {
            place.compare_exchange(-1, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let place = OPEN.iter().find(free);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let channel = Channel::new(stream, processors.saturating_sub(1).max(1));
        Ok(Self { channel, place })
    }

    /// Returns whether the agent has closed the connection.
    pub fn is_dead(&self) -> bool {
        is_dead(self.channel.stream())
    }

    /// Returns the message to send.
    pub fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.channel.frame
    }

    /// Sends the frame and returns the message that answers it.
    pub fn exchange(&mut self) -> Result<&[u8], Lost> {
        // A request that is not whole is not carried out.
        self.channel.send().map_err(|error| Lost { sent: false, error })?;
        self.channel.receive(MAX_MESSAGE).map_err(|error| Lost { sent: true, error })?;
        Ok(self.channel.parts().0)
    }

    /// Wipes both messages, which may have a PIN or a key.
    pub fn wipe(&mut self) {
        self.channel.wipe();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(-1, Ordering::Relaxed);
        }
    }
}
