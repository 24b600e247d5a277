//! The key types, one file per family.

pub(crate) mod ec;
pub(crate) mod otp;
