//! The common code of the tool, the conformance suite and the benches: the PKCS#11 modules of this
//! machine, a fresh token for each, and the generated parts of pages.
//!
//! A module that is not installed is not an error. The callers use the modules that they find.

mod error;
mod library;
mod page;
mod sandbox;

pub use error::{Error, printed};
pub use library::{KNOWN, Known, UNPACKAGED, library_of};
pub use page::write_between;
pub use sandbox::{PIN, SO_PIN, Sandbox, TokenAccess, free_slot, initialise, open_token, prepare_token};
