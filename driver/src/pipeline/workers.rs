//! One value for each thread of the pool. A thread uses its own, so no thread waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One `T` for each thread of the current pool, and one for the thread outside the pool.
pub(super) struct PerThread<T> {
    slots: Vec<Mutex<T>>,
}

impl<T> PerThread<T> {
    pub(super) fn new<E>(threads: usize, make: impl Fn() -> Result<T, E>) -> Result<Self, E> {
        let slots = (0..=threads).map(|_| make().map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(Self { slots })
    }

    /// Returns this thread's value. The lock is never contended. It exists because the compiler
    /// cannot know that.
    pub(super) fn mine(&self) -> MutexGuard<'_, T> {
        let outside = self.slots.len() - 1;
        let index = rayon::current_thread_index().map_or(outside, |index| index.min(outside));
        // A panic cannot break an invariant of these values.
        self.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
