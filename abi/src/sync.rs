//! The atomics that hold the module's state. `conformance/models` compiles the file `call.rs` with
//! its own `crate::sync`. Its models run threads in many orders, and fork between any two steps.

pub(crate) use std::process::id;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
pub(crate) use std::thread::sleep;
