//! The memory that the calls of one request may have. It is taken from the client's quota before it
//! is allocated.

use std::sync::Arc;
use std::time::Duration;

use jeton::quota::{Permit, Quota};
use jeton_agent_wire::Malformed;

/// The bytes of a request that its connection has paid for.
const FREE: usize = 32 * 1024;
/// How long a call waits for memory that other calls of the client have.
pub const WAIT: Duration = Duration::from_secs(5);

/// Why a call was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unserved {
    /// The message does not follow the protocol.
    Malformed,
    /// The client's quota has no room for the call.
    Memory,
    /// No memory has a length of the message. The function refuses it.
    Impossible,
}

impl From<Malformed> for Unserved {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// The memory of a request, until it is dropped.
pub struct Budget {
    quota: Arc<Quota>,
    free: usize,
    permit: Option<Permit>,
}

impl Budget {
    /// Returns the budget of a request of a client with this quota.
    pub fn new(quota: &Arc<Quota>) -> Self {
        Self { quota: Arc::clone(quota), free: FREE, permit: None }
    }

    /// Takes memory for a part of the request. Waits only if the request has none of the quota yet:
    /// otherwise two requests could wait for each other.
    pub fn take(&mut self, bytes: usize) -> Result<(), Unserved> {
        if let Some(left) = self.free.checked_sub(bytes) {
            self.free = left;
            return Ok(());
        }
        let is_taken = match &mut self.permit {
            Some(permit) => permit.try_grow(bytes),
            none => {
                *none = self.quota.take(bytes, WAIT);
                none.is_some()
            }
        };
        is_taken.then_some(()).ok_or(Unserved::Memory)
    }
}
