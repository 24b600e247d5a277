//! The memory that one client may have. It is for an agent that works for clients it does not
//! trust: what a client makes it keep is taken from the client's quota before it is allocated.
//!
//! In a process that works for itself there is no quota, and nothing here is used.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number of bytes that the memory of a client may have together.
#[derive(Debug)]
pub struct Quota {
    limit: usize,
    used: Mutex<usize>,
    freed: Condvar,
    /// The callers that wait.
    waiting: AtomicUsize,
}

/// A part of a [`Quota`], which it gets back when this value is dropped.
#[derive(Debug)]
pub struct Permit {
    quota: Arc<Quota>,
    bytes: usize,
}

impl Quota {
    /// Returns a quota of this number of bytes, all of which are free.
    pub fn new(bytes: usize) -> Arc<Self> {
        let (used, freed, waiting) = Default::default();
        Arc::new(Self { limit: bytes, used, freed, waiting })
    }

    /// Waits for at most this time until this number of bytes is free, and takes them. `None` if
    /// they are not free then, or more than [`limit`](Self::limit). The caller has no other permit
    /// of this quota, for which a second caller could wait.
    pub fn take(self: &Arc<Self>, bytes: usize, patience: Duration) -> Option<Permit> {
        if bytes > self.limit {
            return None;
        }
        let is_full = |used: &mut usize| self.limit - *used < bytes;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.freed.wait_timeout_while(self.lock(), patience, is_full);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let (mut used, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            return None;
        }
        *used += bytes;
        drop(used);
        Some(Permit { quota: Arc::clone(self), bytes })
    }

    /// Takes this number of bytes; `None` if they are not free now.
    pub fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Permit> {
        self.count(bytes).then(|| Permit { quota: Arc::clone(self), bytes })
    }

    /// Returns the number of bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of bytes that are taken.
    pub fn used(&self) -> usize {
        *self.lock()
    }

    /// Returns whether a caller waits for bytes.
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Counts bytes as used if they are free. Returns whether they were.
    fn count(&self, bytes: usize) -> bool {
        let mut used = self.lock();
        let is_free = self.limit - *used >= bytes;
        if is_free {
            *used += bytes;
        }
        is_free
    }

    fn give_back(&self, bytes: usize) {
        *self.lock() -= bytes;
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the quota that it is a part of.
    pub fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Takes this number of bytes more. Returns `false`, and takes none, if they are not free now.
    pub fn try_grow(&mut self, more: usize) -> bool {
        let has_grown = self.quota.count(more);
        if has_grown {
            self.bytes += more;
        }
        has_grown
    }

    /// Gives back what is more than this number of bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.quota.give_back(less);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.quota.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_quota_gives_no_more_than_it_has_and_gets_all_of_it_back() {
        let quota = Quota::new(100);
        let mut first = quota.try_take(60).expect("60 of 100 bytes");
        assert!(quota.try_take(41).is_none());
        assert!(!first.try_grow(41));
        assert!(first.try_grow(40));
        assert_eq!((first.bytes(), quota.used(), quota.limit()), (100, 100, 100));
        assert!(quota.try_take(0).is_some());
        first.shrink(30);
        first.shrink(50);
        assert_eq!((first.bytes(), quota.used()), (30, 30));
        assert!(quota.try_take(usize::MAX).is_none());
        drop(first);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn take_waits_until_another_permit_is_dropped() {
        let quota = Quota::new(100);
        let held = quota.take(80, PATIENCE).expect("80 of 100 bytes");
        assert!(quota.take(50, Duration::from_millis(1)).is_none());
        assert!(quota.take(101, PATIENCE).is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| quota.take(50, PATIENCE).map(|permit| permit.bytes()));
            thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.join().expect("a thread"), Some(50));
        });
        assert_eq!(quota.used(), 0);
    }
}
