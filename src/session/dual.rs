//! Functions that use two operations of a session at once (PKCS#11 3.2, "Dual-function
//! cryptographic functions").

use super::Session;
use super::crypt::Crypting;
use super::operation::{Absorb, Operation, Output};
use crate::error::{Error, Result};

impl Session {
    /// `C_DigestEncryptUpdate`
    pub fn digest_encrypt_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.encrypt.follow_key(&self.token, self.access)?;
        encrypt_and_absorb(&mut self.operations.encrypt, &mut self.operations.digest, data, out)
    }

    /// `C_DecryptDigestUpdate`
    pub fn decrypt_digest_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.decrypt.follow_key(&self.token, self.access)?;
        decrypt_and_absorb(&mut self.operations.decrypt, &mut self.operations.digest, data, out)
    }

    /// `C_SignEncryptUpdate`
    pub fn sign_encrypt_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.encrypt.follow_key(&self.token, self.access)?;
        encrypt_and_absorb(&mut self.operations.encrypt, &mut self.operations.sign, data, out)
    }

    /// `C_DecryptVerifyUpdate`
    pub fn decrypt_verify_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.decrypt.follow_key(&self.token, self.access)?;
        decrypt_and_absorb(&mut self.operations.decrypt, &mut self.operations.verify, data, out)
    }
}

/// Encrypts a part and passes the plaintext to the other operation. Does neither if the buffer is
/// too small.
fn encrypt_and_absorb<E: Absorb>(
    encrypt: &mut Operation<Crypting>,
    other: &mut Operation<E>,
    data: &[u8],
    out: Output<'_>,
) -> Result<usize> {
    check_active(encrypt, other)?;
    let asks_length = matches!(out, Output::Length);
    let written = encrypt.crypt_update(data, out)?;
    if !asks_length {
        other.update(data)?;
    }
    Ok(written)
}

fn decrypt_and_absorb<E: Absorb>(
    decrypt: &mut Operation<Crypting>,
    other: &mut Operation<E>,
    data: &[u8],
    out: Output<'_>,
) -> Result<usize> {
    check_active(decrypt, other)?;
    let Output::Buffer(out) = out else { return decrypt.crypt_update(data, out) };
    let written = decrypt.crypt_update(data, Output::Buffer(out))?;
    other.update(&out[..written])?;
    Ok(written)
}

/// Fails with `OperationNotInitialized` unless both operations are active. If the mechanism of one
/// of them has only single-part operations, that operation ends.
fn check_active<E: Absorb>(crypt: &mut Operation<Crypting>, other: &mut Operation<E>) -> Result<()> {
    crypt.expect_parts().and(other.expect_parts())?;
    let both = crypt.is_active() && other.is_active();
    if both { Ok(()) } else { Err(Error::OperationNotInitialized) }
}
