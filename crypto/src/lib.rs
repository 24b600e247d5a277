//! The cryptography that Jeton computes itself, because no library does it, or not as fast.
//!
//! What a library supplies is a trait of [`library`]: hashes, a block cipher, random bytes. Nothing
//! here knows PKCS#11. `README.md` says for each part why no crate has it, and what proves it.

#![deny(unsafe_code)]

#[cfg(test)]
mod constant_time;
mod error;
pub mod extra_bits;
pub mod hash_based;
#[cfg(feature = "lanes")]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables, reason = "other processors lack the instructions")
)]
pub mod lanes;
pub mod library;
pub mod modes;
pub mod padding;
pub mod rejection;
#[cfg(feature = "slh-dsa")]
pub mod slh_dsa;
#[cfg(test)]
mod taint;
#[cfg(test)]
mod testing;

pub use error::{Error, Result};
