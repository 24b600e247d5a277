//! Secret keys: raw bytes, or hexadecimal text.

use zeroize::Zeroizing;

use super::{Error, pem};

/// Reads a secret key of one of these lengths in bytes. Text of hexadecimal digits is decoded if
/// it gives one of the lengths. Any other content is the key itself.
pub fn secret_key(file: &[u8], lengths: &[usize]) -> Result<Zeroizing<Vec<u8>>, Error> {
    if let Some(key) = hexadecimal(file)
        && lengths.contains(&key.len())
    {
        return Ok(key);
    }
    if lengths.contains(&file.len()) {
        return Ok(Zeroizing::new(file.to_vec()));
    }
    Err(Error::Refused(
        "the secret key has a wrong length: AES keys have 16, 24 or 32 bytes, raw or as hex digits",
    ))
}

fn hexadecimal(file: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = pem::text(file);
    let text = text.trim();
    let digits = text.as_bytes().chunks_exact(2);
    if !digits.remainder().is_empty() || text.is_empty() {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    digits
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<Vec<_>>>()
        .map(Zeroizing::new)
}
