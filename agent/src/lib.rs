//! `jeton-agent`: opens the tokens of a host once, and serves them to the applications that load
//! `libjeton_client.so`. `docs/agent.md` describes it.

#![forbid(unsafe_code)]

mod application;
mod budget;
mod connections;
mod dispatch;
mod figures;
pub mod peer;
mod pins;
mod policy;
mod register;
pub mod rules;
mod runs;
mod state;
pub mod ticket;
pub mod tls;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jeton::functions::Module;
use jeton::id::{SessionHandle, SlotId};
use jeton::quota::Permit;
use jeton_agent_wire::channel::KEPT;
use jeton_agent_wire::{Application as Name, Opening};

use figures::Latencies;
use pins::Pins;
use policy::Pace;
use register::{Register, Standing};
use ticket::Tickets;
use tls::Gate;

/// What a connection takes from the client's quota: both buffers, and as much for its stack and for
/// small calls.
const CONNECTION: usize = 4 * KEPT;
/// How long a peer may take for its first message, and for each part of a message or an answer that
/// has begun.
const PROGRESS: Duration = Duration::from_secs(20);

/// The agent.
pub struct Agent {
    /// The module that opened the tokens. Applications join it.
    module: Module,
    tickets: Tickets,
    pins: Pins,
    applications: Mutex<HashMap<Name, Arc<Application>>>,
    register: Register,
    latencies: Latencies,
    started: Instant,
    /// The number of threads that may ask for messages without sleeping.
    asking: usize,
    gate: Gate,
}

struct Application {
    module: Module,
    /// The connection that started it. No other client joins it.
    standing: Arc<Standing>,
    /// Whether it allows no threads of the module's own.
    single: bool,
    /// The client that its process was before, whose tickets are good here too.
    before: Option<String>,
    /// Whether its connections had to end. None joins it any more.
    is_ended: AtomicBool,
    since: Instant,
    connections: AtomicUsize,
    /// The ticket of the login to each token. A client whose answer was lost logs in again for it.
    tickets: Mutex<HashMap<SlotId, Vec<u8>>>,
    /// How many logins had ended at the last logout.
    ended: Mutex<HashMap<SlotId, u64>>,
    /// The last request that opened a session, and that session.
    opened: Mutex<(Opening, Option<SessionHandle>)>,
    /// The functions of which a refusal was logged as an error.
    refused: Mutex<HashSet<&'static str>>,
    pace: Pace,
}

/// What a thread knows of its connection.
struct Connection<'a> {
    agent: &'a Arc<Agent>,
    standing: Arc<Standing>,
    /// The memory of the connection, if it belongs to an application.
    permit: Option<Permit>,
    application: Option<(Name, Arc<Application>)>,
    /// The number of the last request with calls.
    number: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
