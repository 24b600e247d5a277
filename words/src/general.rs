//! The arguments of `C_Initialize`.

use serde::{Deserialize, Serialize};

/// Whether the application allows the library to create threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Threads {
    /// The library may create threads.
    Allowed,
    /// The library creates no thread (`CKF_LIBRARY_CANT_CREATE_OS_THREADS`).
    Forbidden,
}
