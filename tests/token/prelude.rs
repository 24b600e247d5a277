//! The names that most tests of tokens use.

#![allow(unused_imports, reason = "each test binary uses its part")]

pub use std::path::{Path, PathBuf};
pub use std::sync::Arc;
pub use std::time::{Duration, Instant};

pub use jeton::backend::{AeadScheme, Direction, Hash, Provider};
pub use jeton::error::{Error, Result};
pub use jeton::functions::{Access, Module, Output, User};
pub use jeton::id::{
    AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle, SlotId, value,
};
pub use jeton::mechanism::{HkdfSalt, MacFunction, Mechanism, Params};
pub use jeton::object::template::{Given, Raw, Template};

pub use crate::keys::*;
pub use crate::support::*;
