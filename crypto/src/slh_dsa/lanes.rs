//! Hash primitives that compute several independent values at once with the instructions of the
//! processor. Without these instructions the crates compute one value after the other.

pub(super) mod keccak;
pub(super) mod sha256;
pub(super) mod sha512;
