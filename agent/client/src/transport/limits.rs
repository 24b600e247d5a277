//! How long an agent may take.

use std::time::{Duration, Instant};

/// How long an agent may take for a new connection, and for its first answer there.
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

/// Returns how long an agent may take for a new connection, or for its first answer there, in an
/// attempt until the time `end`.
pub fn brief(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now()).clamp(LEAST, BRIEF)
}
