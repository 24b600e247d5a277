//! Limits the memory that all runs of Argon2id in a process use at the same time. Logins and new
//! PINs need such runs.
//!
//! If there is not enough room, a run waits until other runs have freed their memory. One atomic
//! word counts the memory in use. A lock is not used: if another thread holds a lock during a fork,
//! the lock stays locked in the child forever. The word also contains the process ID. So a child
//! does not count the memory of its parent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The memory in KiB that all runs together may use. It is enough for 13 runs with the default
/// parameters. A run that needs more than this waits until no other run is active.
const LIMIT_KIB: u32 = 256 * 1024;

/// The first pause of a run that waits for room. Each later pause is twice as long, up to
/// `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// The gate of this process.
pub(in crate::store) static GATE: Gate = Gate::new(LIMIT_KIB);

/// Counts the memory in use. The upper half of `used` is the process ID, the lower half the KiB.
pub(in crate::store) struct Gate {
    limit: u32,
    used: AtomicU64,
}

/// Memory that is counted as in use until this value is dropped.
pub(in crate::store) struct Permit {
    gate: &'static Gate,
    kib: u32,
}

impl Gate {
    const fn new(limit: u32) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Waits until there is room for this number of KiB, and counts them.
    pub(in crate::store) fn enter(&'static self, kib: u32) -> Permit {
        let kib = kib.min(self.limit);
        let mut pause = FIRST_PAUSE;
        while !self.count(kib) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Permit { gate: self, kib }
    }

    /// Counts this number of KiB as in use if there is room. Returns whether there was room.
    fn count(&self, kib: u32) -> bool {
        let update = |word| {
            let used = used_here(word);
            (self.limit - used >= kib).then(|| word_of(used + kib))
        };
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    }

    fn leave(&self, kib: u32) {
        let update = |word| Some(word_of(used_here(word).saturating_sub(kib)));
        let _ = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(self.kib);
    }
}

/// Returns the KiB of a word; 0 if another process wrote it.
fn used_here(word: u64) -> u32 {
    // The lower half of the word.
    if word >> 32 == u64::from(std::process::id()) { word as u32 } else { 0 }
}

fn word_of(kib: u32) -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(kib)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn threads_never_use_more_than_the_limit_and_all_of_them_finish() {
        static SMALL: Gate = Gate::new(100);
        let (now, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for kib in [30, 40, 100, 1000, 30, 40, 30, 1] {
                let (now, most, done) = (&now, &most, &done);
                scope.spawn(move || {
                    let permit = SMALL.enter(kib);
                    most.fetch_max(
                        now.fetch_add(permit.kib, Ordering::SeqCst) + permit.kib,
                        Ordering::SeqCst,
                    );
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(permit.kib, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 8);
        assert!(most.into_inner() <= 100);
        assert_eq!(used_here(SMALL.used.load(Ordering::SeqCst)), 0);
    }

    #[test]
    fn memory_of_a_parent_process_is_not_counted_in_its_child() {
        static INHERITED: Gate = Gate::new(100);
        INHERITED.used.store(u64::from(std::process::id() + 1) << 32 | 100, Ordering::SeqCst);
        let permit = INHERITED.enter(60);
        assert_eq!(used_here(INHERITED.used.load(Ordering::SeqCst)), 60);
        drop(permit);
    }
}
