//! The memory that the calls of one request may have. It is taken from the client's quota before it
//! is allocated.

use std::sync::Arc;
use std::time::Duration;

use jeton::quota::{Permit, Quota};

/// The bytes of a request that its connection has paid for.
const FREE: usize = 32 * 1024;
/// How long a call waits for memory that other calls of the client have.
pub const WAIT: Duration = Duration::from_secs(5);

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

    /// Takes memory for a part of the request. Returns `false` if the client's quota has no room.
    /// Waits only if the request has none of the quota yet: otherwise two requests could wait for
    /// each other.
    pub fn take(&mut self, bytes: usize) -> bool {
        if let Some(left) = self.free.checked_sub(bytes) {
            self.free = left;
            return true;
        }
        match &mut self.permit {
            Some(permit) => permit.try_grow(bytes),
            none => {
                *none = self.quota.take(bytes, WAIT);
                none.is_some()
            }
        }
    }
}
