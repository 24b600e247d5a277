//! The atomics that hold the module's state. `conformance/models` compiles `call` with its own
//! `crate::sync`, which tries many interleavings of threads, with forks between any two steps.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
pub(crate) use std::thread::sleep;
