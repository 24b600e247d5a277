//! Eight computations at once, in the lanes of AVX-512 IFMA, for callers that wait anyway.
//!
//! [`queue`] brings callers together. [`montgomery`] computes with eight numbers at once, and
//! [`rsa`] and [`prime`] are made of it. No branch and no address depends on a secret.

mod montgomery;
mod prime;
mod queue;
mod rsa;
mod vector;

pub(super) use prime::primes;
pub(super) use queue::{Joined, Queue};
pub(super) use rsa::{Job, Key, queue};

use std::sync::atomic::{AtomicBool, Ordering};

/// The number of computations.
const LANES: usize = 8;

static IS_ALLOWED: AtomicBool = AtomicBool::new(true);

/// Says whether [`queue`] returns queues. Counts the processors of the calling thread: a thread
/// that signs later may be bound to one of them.
pub(super) fn allow(allowed: bool) {
    queue::count_processors();
    IS_ALLOWED.store(allowed, Ordering::Relaxed);
}

fn is_allowed() -> bool {
    IS_ALLOWED.load(Ordering::Relaxed)
}
