//! The atomics and locks of the session table and of the epoch. `conformance/models` compiles the
//! files of both with another `crate::sync`, which tries many interleavings of threads.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
