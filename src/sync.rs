//! What threads share a word or a lock by, where the order of their steps matters most: the table of sessions and the
//! epoch. `conformance/models` compiles the same files with a `crate::sync` of its own, which tries many orders.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
