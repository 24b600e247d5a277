//! Published test vectors: those of Project Wycheproof, those of NIST's ACVP, and known answers of
//! other standards (`sets/`).
//!
//! This crate reads the sets, turns each vector into a [`Case`], and judges the result. Two
//! adapters carry the cases out: `conformance/src/vectors.rs` with any module, and
//! `tests/backend/vectors.rs` those that no mechanism can express.

mod case;
mod curve;
mod der;
mod deviations;
mod json;
mod set;

pub use case::{Case, Deviation, EdwardsKey, Expected, Mac, Miss, Operation, Padding, Pair, Parameter};
pub use case::{PublicKey, RsaKey, Scheme, Tally};
pub use curve::Curve;
pub use set::{Set, sets};

/// Returns the bytes of a text in hexadecimal.
///
/// # Panics
///
/// If the text is not hexadecimal.
pub fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    assert!(text.len().is_multiple_of(2), "an odd number of digits: {text}");
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Returns a big integer in the form of PKCS#11, without leading zeros.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}
