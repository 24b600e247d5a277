//! A safe client of the PKCS#11 C interface. It loads a module by its path, opens sessions, and
//! uses their objects and operations.
//!
//! It adds no rules of its own. An answer of the module is a value, or a [`Failure`] that names the
//! function, the return code and the step that failed. Arguments are passed on as they are, right
//! or wrong, so a conformance suite can use the client as well as an application.

#![deny(unsafe_code)]

// These modules call C.
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
mod memory;
pub mod names;

pub use attribute::{Attribute, Mechanism};
pub use failure::{Doing, Failure};
pub use memory::{Memory, Structure};
pub use module::{
    LibraryInfo, LoadError, MechanismInfo, Module, ModuleError, SlotId, SlotInfo, TokenInfo, Version,
};
pub use raw::{Arg, FUNCTIONS, Function, Kind};
pub use session::{Access, ObjectHandle, Session, SessionInfo, User};
