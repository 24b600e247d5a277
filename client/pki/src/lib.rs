//! Keys of a token in X.509: their types, public keys and signatures.

#![forbid(unsafe_code)]

pub mod ecdsa;
mod error;
pub mod key_type;
mod public_key;
mod signed;
pub mod signer;
pub mod software;

pub use error::Error;
pub use public_key::{RsaPublicKey, expect_one_encoding, public_key_template};
pub use signed::Signed;
