//! When a token looks for changes of other processes the next time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The pause after a check for changes is at least this number of times as long as the check. A
/// check of a large token is slow.
const SHARE: u32 = 16;
/// The longest pause, or twice the time of the check if this is longer. A check may also be slow
/// because a server answers slowly.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The number of ticks in a second of the clock. A second has 59 or 60 of them, and skips the rest.
const TICKS: i64 = 64;

/// The time of the next check for changes of other processes, for sessions that use keys and never
/// search. A search always checks. The time is in ticks of a coarse clock, which is cheap to read.
#[derive(Default)]
pub(super) struct NextPoll(AtomicI64);

impl NextPoll {
    /// Returns whether a check is due. Returns `true` to one thread only.
    pub(super) fn due(&self, now: i64) -> bool {
        let due = self.0.load(Ordering::Relaxed);
        let next = now.saturating_add(TICKS);
        now >= due && self.0.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Sets the time of the next check, after a check that began at `began`: after this pause or a
    /// longer one.
    pub(super) fn pause_after(&self, began: Instant, least: Duration) {
        let took = began.elapsed();
        let pause = (SHARE * took).min(LONGEST_PAUSE.max(2 * took)).max(least);
        let ticks = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX) * TICKS / 1000;
        self.0.store(tick().saturating_add(ticks.max(1)), Ordering::Relaxed);
    }

    /// Makes the next use of a key check, because this check found nothing out: the server has not
    /// answered yet, there is no connection yet, or another thread is waiting for the server.
    pub(super) fn check_at_next_use(&self) {
        self.0.store(tick(), Ordering::Relaxed);
    }
}

pub(super) fn tick() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // 2^24 ns are a 59.6th of a second.
    (now.tv_sec << 6) | (now.tv_nsec >> 24)
}
