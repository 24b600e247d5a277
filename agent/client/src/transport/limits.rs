//! How long an agent may take.

use std::time::Duration;

/// How long an agent may take for a new connection, and for its first answer there.
pub const BRIEF: Duration = Duration::from_secs(2);
/// After this time without an answer, a call asks on another connection whether the agent lives. A
/// key generation may take minutes.
pub const SILENCE: Duration = Duration::from_secs(2);
/// How long an agent may take no byte of a message. It may wait for the memory of the client first.
pub const STUCK: Duration = Duration::from_secs(8);
/// How long a connection may take: until it is there, to receive and to send.
pub const LIMITS: [Duration; 3] = [BRIEF, SILENCE, STUCK];
/// How long a short answer may take from its first byte to its last one.
pub const WHOLE: Duration = Duration::from_secs(4);
