//! The arguments of `C_Initialize`.

/// Whether the application allows the library to create threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The library may create threads.
    Allowed,
    /// The library creates no thread (`CKF_LIBRARY_CANT_CREATE_OS_THREADS`).
    Forbidden,
}
