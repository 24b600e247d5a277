//! Limits how much costly work a process does at the same time. Logins and new PINs need Argon2id,
//! which uses a lot of memory and all of a processor.
//!
//! Work that finds no room waits, and begins in the order in which it came. Atomic words count. A
//! lock is not used: if another thread holds a lock during a fork, the lock stays locked in the
//! child forever. Each word also contains the process ID. So a child does not count the work of its
//! parent.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The memory in KiB that all work together may use. It is enough for 13 runs of Argon2id with the
/// default parameters. A run that needs more than this waits until no other run is active.
const LIMIT_KIB: u32 = 256 * 1024;
/// The number of runs at the same time on a machine with fewer processors.
const LEAST_RUNS: u32 = 2;

/// The pause of a run that is the next one. A run with others before it pauses longer, up to
/// `LONGEST_PAUSE`.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// The bits of a word of [`Gate::used`] that hold the KiB. The number of runs is above them.
const KIB_BITS: u32 = 24;
const _: () = assert!(LIMIT_KIB < 1 << KIB_BITS);
/// The largest number of runs that a word can hold.
const MOST_RUNS: u32 = 0xff;

/// Counts runs of one kind of work. The upper half of each word is the process ID.
pub(crate) struct Gate {
    limit_kib: u32,
    /// The number of runs at the same time; `None` for the number of processors.
    limit_runs: Option<u32>,
    /// The number that the next run gets.
    next: AtomicU64,
    /// The number of the run that may begin, as soon as there is room.
    turn: AtomicU64,
    /// The active runs, and the KiB that they use.
    used: AtomicU64,
}

/// A run that is counted as active until this value is dropped.
pub(crate) struct Permit {
    gate: &'static Gate,
    kib: u32,
}

impl Gate {
    /// Returns a gate that lets a run through for each processor, but at least two.
    pub(crate) const fn new() -> Self {
        Self::with(LIMIT_KIB, None)
    }

    const fn with(limit_kib: u32, limit_runs: Option<u32>) -> Self {
        let [next, turn, used] = [const { AtomicU64::new(0) }; 3];
        Self { limit_kib, limit_runs, next, turn, used }
    }

    /// Waits until there is room for a run with this number of KiB, and counts it.
    pub(crate) fn enter(&'static self, kib: u32) -> Permit {
        let kib = kib.min(self.limit_kib);
        let runs = self.limit_runs.unwrap_or_else(processors);
        let mine =
            number_here(update(&self.next, |next| Some(next.wrapping_add(1))).unwrap_or_else(|same| same));
        loop {
            match mine.wrapping_sub(number_here(self.turn.load(Ordering::Acquire))) {
                0 if self.count(kib, runs) => break,
                before => thread::sleep((PAUSE * before.max(1)).min(LONGEST_PAUSE)),
            }
        }
        let _ = update(&self.turn, |turn| Some(turn.wrapping_add(1)));
        Permit { gate: self, kib }
    }

    /// Counts a run if there is room for it. Returns whether there was room.
    fn count(&self, kib: u32, runs: u32) -> bool {
        let has_room =
            |used: u32| used >> KIB_BITS < runs && self.limit_kib - (used & ((1 << KIB_BITS) - 1)) >= kib;
        update(&self.used, |used| has_room(used).then_some(used + (1 << KIB_BITS) + kib)).is_ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = update(&self.gate.used, |used| used.checked_sub((1 << KIB_BITS) + self.kib));
    }
}

fn processors() -> u32 {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(processors).unwrap_or(MOST_RUNS).clamp(LEAST_RUNS, MOST_RUNS)
}

/// Replaces the number in a word of this process, unless `change` returns `None`. Returns the word
/// that was there before, in `Err` if it stays.
fn update(word: &AtomicU64, change: impl Fn(u32) -> Option<u32>) -> Result<u64, u64> {
    let word_of = |number| u64::from(std::process::id()) << 32 | u64::from(number);
    let change = |old| change(number_here(old)).map(word_of);
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
}

/// Returns the number in a word; 0 if another process wrote it.
fn number_here(word: u64) -> u32 {
    // The lower half of the word.
    if word >> 32 == u64::from(std::process::id()) { word as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn threads_never_use_more_than_the_limits_and_all_of_them_finish() {
        static SMALL: Gate = Gate::with(100, Some(3));
        let (now, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let (running, most_running) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for kib in [30, 40, 100, 1000, 30, 40, 30, 1, 1, 1, 1, 1] {
                let (now, most, done) = (&now, &most, &done);
                let (running, most_running) = (&running, &most_running);
                scope.spawn(move || {
                    let permit = SMALL.enter(kib);
                    most.fetch_max(
                        now.fetch_add(permit.kib, Ordering::SeqCst) + permit.kib,
                        Ordering::SeqCst,
                    );
                    most_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(permit.kib, Ordering::SeqCst);
                    running.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 12);
        assert!(most.into_inner() <= 100);
        assert!(most_running.into_inner() <= 3);
        assert_eq!(number_here(SMALL.used.load(Ordering::SeqCst)), 0);
    }

    #[test]
    fn runs_begin_in_the_order_in_which_they_came() {
        static ONE: Gate = Gate::with(100, Some(1));
        let begun = Mutex::new(Vec::new());
        let first = ONE.enter(1);
        thread::scope(|scope| {
            for number in 1..=5 {
                let begun = &begun;
                scope.spawn(move || {
                    let _permit = ONE.enter(1);
                    begun.lock().expect("the list").push(number);
                });
                // Until the thread has its number.
                while number_here(ONE.next.load(Ordering::SeqCst)) != number + 1 {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(begun.into_inner().expect("the list"), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn work_of_a_parent_process_is_not_counted_in_its_child() {
        static INHERITED: Gate = Gate::with(100, Some(1));
        let parents = u64::from(std::process::id() + 1) << 32;
        INHERITED.used.store(parents | 1 << KIB_BITS | 100, Ordering::SeqCst);
        INHERITED.next.store(parents | 7, Ordering::SeqCst);
        INHERITED.turn.store(parents | 5, Ordering::SeqCst);
        let permit = INHERITED.enter(60);
        assert_eq!(number_here(INHERITED.used.load(Ordering::SeqCst)), 1 << KIB_BITS | 60);
        drop(permit);
    }
}
