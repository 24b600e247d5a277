//! `jeton-agent`: serves the tokens of a host to the applications that load `libjeton_client.so`.
//! `docs/agent.md` describes it.
//!
//! The front accepts, and starts a worker for each client; a door ends TLS; a writer has the audit
//! log; a monitor tells the figures by HTTP; a short process lists the tokens.

#![forbid(unsafe_code)]

mod application;
pub mod ask_front;
mod connection;
mod dispatch;
pub mod door;
mod figures;
pub mod front;
pub mod handshake_limits;
pub mod link;
pub mod monitor;
pub mod notify;
mod pace;
pub mod peer;
mod pins;
mod policy;
pub mod queue;
mod record_limit;
mod request_memory;
pub mod rules;
pub mod sandbox;
#[cfg(feature = "split")]
mod split;
#[cfg(feature = "split")]
mod split_rounds;
pub mod ticket;
pub mod tls;
pub mod token_headers;
pub mod worker;
pub mod writer;
mod wrong_pins;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jeton_agent_wire::channel::KEPT;
use tracing::error;

/// What a connection takes from the client's quota: both buffers, and as much for its stack and for
/// small calls.
const CONNECTION: usize = 4 * KEPT;
/// How long a peer may take for its first message, and for each part of a message or an answer that
/// has begun.
const PROGRESS: Duration = Duration::from_secs(20);

/// Ends the process when the thread that it belongs to ends, so that the process is started again:
/// one that accepts nothing is worse than none.
struct ForEver(&'static str);

impl Drop for ForEver {
    fn drop(&mut self) {
        error!("{} has ended", self.0);
        std::process::abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
