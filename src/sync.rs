//! The atomics and locks of the session table, the epoch, and the reservation of uses.
//! `conformance/models` compiles their files with another `crate::sync`, which tries many
//! interleavings of threads.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Locks a mutex, also after a panic in a thread that held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
