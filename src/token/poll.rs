//! When a token looks for changes of other processes the next time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// The pause after a check for changes is at least this number of times as long as the check. A
/// check of a large token is slow.
const SHARE: u128 = 16;
/// The longest pause in seconds. A check may also be slow because a server answers slowly.
const LONGEST_PAUSE: i64 = 30;

/// The time of the next check for changes of other processes, for sessions that use keys and never
/// search. A search always checks. The time is in seconds of a coarse clock, which is cheap to
/// read.
#[derive(Default)]
pub(super) struct NextPoll(AtomicI64);

impl NextPoll {
    /// Returns whether a check is due. Returns `true` to one thread only.
    pub(super) fn due(&self, now: i64) -> bool {
        let due = self.0.load(Ordering::Relaxed);
        let next = now.saturating_add(1);
        now >= due && self.0.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Sets the time of the next check, after a check that began at `began`.
    pub(super) fn pause_after(&self, began: Instant) {
        let pause = began.elapsed().as_millis() * SHARE / 1000;
        let pause = i64::try_from(pause).unwrap_or(LONGEST_PAUSE).clamp(1, LONGEST_PAUSE);
        self.0.store(second().saturating_add(pause), Ordering::Relaxed);
    }

    /// Makes the next use of a key check, because this check found nothing out: the server has not
    /// answered yet, there is no connection yet, or another thread is waiting for the server.
    pub(super) fn check_at_next_use(&self) {
        self.0.store(second(), Ordering::Relaxed);
    }
}

pub(super) fn second() -> i64 {
    clock_gettime(ClockId::MonotonicCoarse).tv_sec
}
