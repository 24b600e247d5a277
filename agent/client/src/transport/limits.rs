//! How long an agent may take.

use std::time::{Duration, Instant};

/// How long an agent may take for a new connection, and for its first answer there, if there are
/// others.
pub const BRIEF: Duration = Duration::from_secs(2);
/// After this time without an answer, a call asks on another connection whether the agent lives. A
/// key generation may take minutes.
pub const SILENCE: Duration = Duration::from_secs(2);
/// How long an agent may take no byte of a message. It may wait for the memory of the client first.
pub const STUCK: Duration = Duration::from_secs(8);
/// How long an attempt to connect to one agent takes at most.
pub const ATTEMPT: Duration = Duration::from_secs(4);
/// How long it may take at least, however little time a call has left.
pub const LEAST: Duration = Duration::from_millis(50);
/// How long a short answer may take from its first byte to its last one.
pub const WHOLE: Duration = Duration::from_secs(4);

/// An attempt to connect to one agent.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// When it ends.
    pub end: Instant,
    /// How long a new connection, or the first answer there, may take.
    pub step: Duration,
}

impl Attempt {
    /// Returns an attempt in which an agent that is silent leaves time for another one.
    pub fn brief(end: Instant) -> Self {
        Self { end, step: BRIEF }
    }

    /// Returns how long the next step may take.
    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now()).clamp(LEAST, self.step)
    }
}
