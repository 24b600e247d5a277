//! Atomics and locks of the code whose order of steps matters most: the table of sessions and the
//! epoch. `conformance/models` compiles the same files with its own `crate::sync`, which tries many
//! orders.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
