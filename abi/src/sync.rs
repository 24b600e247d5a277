//! What the life of the module is kept in. `conformance/models` compiles `call` with a `crate::sync` of its own, which
//! tries many orders of the threads' steps and forks between any two.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
pub(crate) use std::thread::sleep;
