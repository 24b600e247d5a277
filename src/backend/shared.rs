//! What a library lacks, or what has to be the same with every library, written once.

pub mod des3;
pub(super) mod dh;
pub(super) mod dsa;
pub(crate) mod extra_bits;
#[cfg_attr(
    not(all(feature = "aws-lc", feature = "rustcrypto")),
    allow(dead_code, unused_imports, reason = "each backend uses some of the modes")
)]
pub(super) mod modes;
pub(crate) mod padding;
pub(super) mod point;
#[cfg(not(feature = "fips"))]
pub(super) mod prehash;
pub(super) mod rejection;
