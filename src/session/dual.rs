//! Functions that use two operations of a session at once (PKCS#11 3.2, "Dual-function
//! cryptographic functions").

use super::Session;
use super::crypt::Crypting;
use super::operation::{Absorb, Operation, Output, Parts};
use crate::error::Result;

impl Session {
    /// `C_DigestEncryptUpdate`
    pub(crate) fn digest_encrypt_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.encrypt.follow_key(&self.token, self.access)?;
        encrypt_and_absorb(&mut self.operations.encrypt, &mut self.operations.digest, data, out)
    }

    /// `C_DecryptDigestUpdate`
    pub(crate) fn decrypt_digest_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.decrypt.follow_key(&self.token, self.access)?;
        decrypt_and_absorb(&mut self.operations.decrypt, &mut self.operations.digest, data, out)
    }

    /// `C_SignEncryptUpdate`
    pub(crate) fn sign_encrypt_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
        self.operations.encrypt.follow_key(&self.token, self.access)?;
        encrypt_and_absorb(&mut self.operations.encrypt, &mut self.operations.sign, data, out)
    }

    /// `C_DecryptVerifyUpdate`
    pub(crate) fn decrypt_verify_update(&mut self, data: &[u8], out: Output<'_>) -> Result<usize> {
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
    check_both(encrypt, other)?;
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
    check_both(decrypt, other)?;
    let Output::Buffer(out) = out else { return decrypt.crypt_update(data, out) };
    let written = decrypt.crypt_update(data, Output::Buffer(out))?;
    other.update(&out[..written])?;
    Ok(written)
}

/// Fails unless both operations can take a part of a message. So no part is encrypted or decrypted
/// for an operation that then refuses it.
fn check_both<E: Absorb>(crypt: &mut Operation<Crypting>, other: &mut Operation<E>) -> Result<()> {
    let crypt = crypt.engine_for(Parts::Multiple).map(drop);
    crypt.and(other.engine_for(Parts::Multiple).map(drop))
}
