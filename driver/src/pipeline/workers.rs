//! Something for each thread of the pool: a thread takes its own, so nobody waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One `T` a thread of the current pool, and one for the thread outside.
pub(super) struct PerThread<T> {
    slots: Vec<Mutex<T>>,
}

impl<T> PerThread<T> {
    /// Makes all of them.
    pub(super) fn new<E>(threads: usize, make: impl Fn() -> Result<T, E>) -> Result<Self, E> {
        let slots = (0..=threads).map(|_| make().map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(Self { slots })
    }

    /// This thread's. The lock is never contended: it is there because the compiler cannot know.
    pub(super) fn mine(&self) -> MutexGuard<'_, T> {
        let outside = self.slots.len() - 1;
        let index = rayon::current_thread_index().map_or(outside, |index| index.min(outside));
        // What is kept here has no invariant that a panic could break.
        self.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
