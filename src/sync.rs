//! The atomics and locks of the session table, the epoch, and the reservation of uses.
//! `conformance/models` compiles their files with another `crate::sync`, which tries many
//! interleavings of threads.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
