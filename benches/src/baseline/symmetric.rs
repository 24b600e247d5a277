//! AES-256-GCM, ChaCha20-Poly1305, SHA-256, SHA-512, HMAC-SHA-256 and random bytes.

use std::ptr::{self, NonNull};

use aws_lc_sys as aws;

use super::one;
use crate::scheme::{Aead, Digest};

pub fn random(out: &mut [u8]) {
    // SAFETY: the length is that of `out`.
    one(unsafe { aws::RAND_bytes(out.as_mut_ptr(), out.len()) });
}

/// Writes the digest of `data` into the front of `out`.
pub fn digest(digest: Digest, data: &[u8], out: &mut [u8; 64]) {
    let function = match digest {
        Digest::Sha256 => aws::SHA256,
        Digest::Sha512 => aws::SHA512,
    };
    // SAFETY: the length is that of `data`; `out` has at least the length of the digest.
    unsafe { function(data.as_ptr(), data.len(), out.as_mut_ptr()) };
}

/// A cipher with a prepared key.
pub struct Sealer(NonNull<aws::EVP_AEAD_CTX>);

impl Sealer {
    /// Prepares the key, for tags of 16 bytes.
    pub fn new(cipher: Aead, key: &[u8; 32]) -> Self {
        // SAFETY: both functions only return the address of a static.
        let method = unsafe {
            match cipher {
                Aead::AesGcm => aws::EVP_aead_aes_256_gcm(),
                Aead::ChaCha20Poly1305 => aws::EVP_aead_chacha20_poly1305(),
            }
        };
        // SAFETY: the method is a static, the key has the required length; we own the result.
        let context = unsafe { aws::EVP_AEAD_CTX_new(method, key.as_ptr(), key.len(), 16) };
        Self(NonNull::new(context).expect("memory"))
    }

    /// Decrypts `sealed`, a ciphertext with its tag, into `out`. Returns the length of the message.
    pub fn open(&self, nonce: &[u8; 12], sealed: &[u8], out: &mut [u8]) -> usize {
        self.call(true, nonce, sealed, out)
    }

    /// Writes ciphertext and tag into `out`.
    pub fn seal(&self, nonce: &[u8; 12], input: &[u8], out: &mut [u8]) -> usize {
        self.call(false, nonce, input, out)
    }

    #[inline(always)]
    fn call(&self, opens: bool, nonce: &[u8; 12], input: &[u8], out: &mut [u8]) -> usize {
        let function = if opens { aws::EVP_AEAD_CTX_open } else { aws::EVP_AEAD_CTX_seal };
        let mut len = 0;
        // SAFETY: every slice is passed with its length; null means no associated data.
        one(unsafe {
            function(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                &mut len,
                out.len(),
                nonce.as_ptr(),
                nonce.len(),
                input.as_ptr(),
                input.len(),
                ptr::null(),
                0,
            )
        });
        len
    }
}

impl Drop for Sealer {
    fn drop(&mut self) {
        // SAFETY: we own the context.
        unsafe { aws::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

/// HMAC-SHA-256 with a prepared key.
pub struct Hmac(NonNull<aws::HMAC_CTX>);

impl Hmac {
    pub fn new(key: &[u8; 32]) -> Self {
        // SAFETY: the function takes no arguments; we own the result.
        let context = NonNull::new(unsafe { aws::HMAC_CTX_new() }).expect("memory");
        // SAFETY: we own the context; the length is that of the key; the hash is a static.
        one(unsafe {
            aws::HMAC_Init_ex(
                context.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                aws::EVP_sha256(),
                ptr::null_mut(),
            )
        });
        Self(context)
    }

    /// Writes the MAC of `data` into `out`.
    pub fn code(&mut self, data: &[u8], out: &mut [u8; 32]) {
        let mut len = 0;
        // SAFETY: nulls keep the key and the hash of the context; the length is that of `data`;
        // `out` has the length of the MAC.
        unsafe {
            one(aws::HMAC_Init_ex(self.0.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null_mut()));
            one(aws::HMAC_Update(self.0.as_ptr(), data.as_ptr(), data.len()));
            one(aws::HMAC_Final(self.0.as_ptr(), out.as_mut_ptr(), &mut len));
        }
    }
}

impl Drop for Hmac {
    fn drop(&mut self) {
        // SAFETY: we own the context.
        unsafe { aws::HMAC_CTX_free(self.0.as_ptr()) }
    }
}
