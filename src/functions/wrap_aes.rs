//! The second step of wrapping with RSA or ECDH and AES: a fresh AES key wraps the target key.

use crate::backend::{CipherScheme, Direction};
use crate::error::Result;
use crate::token::Token;

/// Wraps or unwraps with AES-KWP. PKCS#11 3.2, "RSA AES key wrap": a fresh AES key wraps the target
/// key.
pub(super) fn kwp(
    token: &Token,
    aes: &[u8],
    direction: Direction,
    input: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    let mut cipher = token.provider().ciphers.cipher(&CipherScheme::AesKwp { iv: None }, direction, aes)?;
    let written = cipher.update(input, out)?;
    Ok(written + cipher.finish(&mut out[written..])?)
}
