//! The one error of this crate.

/// The result of a function that fails only for want of memory, and of what runs on its stacks.
pub type Result<T, E = OutOfMemory> = std::result::Result<T, E>;

/// There is not enough memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;
