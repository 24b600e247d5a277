//! What the fuzz targets share: a token, and calls of it whose arguments are as hostile as PKCS#11 lets an application
//! be. Every pointer is `NULL` or leads to memory of the length that goes with it, in a block of its own, so that
//! AddressSanitizer sees whoever reads or writes beside it; all else is whatever the fuzzer makes.
//!
//! A run is a sequence of calls, read from the fuzzer's bytes (`source`); the table of functions
//! (`calls`) says what kind of argument stands where. Found is what libFuzzer finds: a panic
//! (libfuzzer-sys aborts at it, before the C interface could catch it), a fault of memory, a leak,
//! a call that takes too long; an answer that PKCS#11 does not know; and what the rules for keys
//! forbid (`policy`).

#![allow(non_snake_case, reason = "fields have the names of the specification")]

mod calls;
mod memory;
mod parameters;
mod policy;
mod run;
mod source;
mod templates;
mod token;

pub mod store;

pub use run::Run;
