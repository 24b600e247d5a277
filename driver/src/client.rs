//! A safe client of the PKCS#11 C ABI: a module by its path, sessions, objects, signatures.
//!
//! It adds no policy of its own. What a module answers comes back as a value or as a [`Failure`] that names the
//! function, the return code and what was being done; what a caller asks is passed on as it is, wrong or not, so
//! that a conformance suite can use it too.

// The only place of the driver that crosses into C.
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
