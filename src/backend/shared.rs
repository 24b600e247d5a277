//! What a library lacks, or what has to be the same with every library, written once.

pub(super) mod composite;
pub mod des3;
pub(super) mod dh;
pub(crate) mod extra_bits;
pub(super) mod point;
#[cfg(not(feature = "fips"))]
pub(super) mod prehash;
#[cfg(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto"))]
pub(super) mod tagged;
