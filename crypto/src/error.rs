//! The errors of this package. A caller knows what it asked for, so that an error need not say it.

use jeton_secret::OutOfMemory;

/// The result of a function that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a computation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The key, the ciphertext or the signature is wrong.
    Invalid,
    /// The key, the message or the signature has a length that does not fit.
    Length,
    /// The output does not fit into the caller's buffer. Nothing has changed.
    TooSmall {
        /// A length in bytes that is always sufficient.
        needed: usize,
    },
    /// There is not enough memory.
    Memory,
    /// The library below failed. It has logged the reason.
    Library,
}

impl From<OutOfMemory> for Error {
    fn from(_: OutOfMemory) -> Self {
        Self::Memory
    }
}

/// Fails with this error if the condition is false.
#[inline(always)]
pub(crate) const fn require(condition: bool, error: Error) -> Result<()> {
    if condition { Ok(()) } else { Err(error) }
}
