//! `libjeton_client.so`: the functions of PKCS#11, carried out by `jeton-agent`.
//!
//! The module has no crypto library, no store and no configuration but the place of the agent and
//! the level of its log. It has three layers: [`local_answers`] answers what needs no agent,
//! [`once`] sends each call exactly once, and [`transport`] has the connections. `docs/agent.md`
//! describes it.

#![allow(non_snake_case, reason = "the exported names are the specification's")]
#![allow(clippy::missing_safety_doc, reason = "the contract of PKCS#11 holds for every exported function")]
#![allow(clippy::too_many_arguments, reason = "the specification's")]

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton_abi::Hooks;

mod answer_check;
mod attribute_numbers;
mod attributes;
#[cfg(feature = "split")]
mod client;
#[cfg(feature = "split")]
mod group;
mod local_answers;
mod log;
mod once;
mod remote;
#[cfg_attr(windows, path = "system/windows.rs")]
#[cfg_attr(not(windows), path = "system/unix.rs")]
mod system;
mod timed_mutex;
mod transport;

#[cfg(feature = "split")]
pub use client::Client;
pub use remote::Remote;

/// The token that the functions call.
#[cfg(not(feature = "split"))]
type Called = Remote;
#[cfg(feature = "split")]
type Called = Client;

jeton_abi::module!(
    Called,
    Hooks {
        new: Called::default,
        register,
        prepare: || Ok(()),
        hold: || (),
        release: || (),
        forget: system::forget_parent,
    }
);

/// Registers the handler of a fork.
#[cfg(unix)]
fn register() -> bool {
    unsafe extern "C" fn nothing() {}
    unsafe extern "C" fn forget_parent() {
        ENTRY.forget_parent();
    }
    // SAFETY: these are functions of this library, which is never unmapped (build.rs: nodelete).
    unsafe { jeton_abi::at_fork(nothing, nothing, forget_parent) }
}

/// Processes do not fork, but a program may unload this library while its threads are in calls.
#[cfg(windows)]
fn register() -> bool {
    system::stay((&raw const ENTRY).cast());
    true
}
