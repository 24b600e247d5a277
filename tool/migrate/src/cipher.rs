//! AES-CBC with padding, which SoftHSMv2 and NSS use.

use aws_lc_rs::cipher::{AES_256, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use super::Secret;

/// The length of a block and of an initialisation vector.
pub(crate) const BLOCK: usize = 16;

/// Decrypts AES-256-CBC with PKCS #7 padding; `None` if the length or the padding is wrong.
pub(crate) fn decrypt_cbc(key: &[u8], iv: &[u8; BLOCK], ciphertext: &[u8]) -> Option<Secret> {
    if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(BLOCK) {
        return None;
    }
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_256, key).ok()?).ok()?;
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let length = key.decrypt(&mut buffer, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?.len();
    buffer.truncate(length);
    Some(buffer)
}

/// Like [`decrypt_cbc`], with the initialisation vector before the ciphertext.
pub(crate) fn decrypt_with_iv(key: &[u8], data: &[u8]) -> Option<Secret> {
    let (iv, ciphertext) = data.split_first_chunk::<BLOCK>()?;
    decrypt_cbc(key, iv, ciphertext)
}
