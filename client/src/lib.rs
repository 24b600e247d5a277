//! A safe client of the PKCS#11 C interface. It loads a module by its path, opens sessions, and
//! uses their objects and operations.
//!
//! It adds no rules of its own. An answer of the module is a value, or a [`Failure`] that names the
//! function, the return code and the step that failed. The client passes on right and wrong
//! arguments unchanged, so both a conformance suite and an application can use it.

#![deny(unsafe_code)]

// These modules call C.
#[allow(unsafe_code)]
mod asynchronous;
#[allow(unsafe_code)]
mod key;
#[allow(unsafe_code)]
mod module;
#[allow(unsafe_code)]
mod object;
#[allow(unsafe_code)]
mod operation;
#[allow(unsafe_code)]
mod raw;
#[allow(unsafe_code)]
mod session;

mod attribute;
mod failure;
pub mod key_types;
mod memory;
pub mod names;
pub mod safe_text;

pub use asynchronous::Later;
pub use attribute::{Attribute, Mechanism};
pub use failure::{Doing, Failure};
pub use memory::{Memory, Structure};
pub use module::{LibraryInfo, LoadError, MechanismInfo, Module, SlotId, SlotInfo, TokenInfo, Version};
pub use raw::{Arg, FUNCTIONS, Function, Kind};
pub use session::{Access, ObjectHandle, Session, SessionInfo, User};
