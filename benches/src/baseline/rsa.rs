//! RSA signatures with PKCS #1 v1.5 and PSS, over SHA-256 digests.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use aws_lc_sys as aws;
use jeton::backend::PublicParts;

use super::{BaselinePair, one};
use crate::scheme::{SALT, Scheme};

/// An owned `RSA`.
pub struct RsaPair(NonNull<aws::RSA>);

// SAFETY: rsa.h: threads may share a key as long as no function changes it. No function changes it
// after its creation.
unsafe impl Send for RsaPair {}
// SAFETY: as for Send.
unsafe impl Sync for RsaPair {}

impl RsaPair {
    /// Generates a key with the public exponent 65537.
    pub(super) fn generate(bits: usize) -> Self {
        // SAFETY: these functions take no arguments; we own the results.
        let (rsa, exponent) = unsafe { (aws::RSA_new(), aws::BN_new()) };
        let pair = Self(NonNull::new(rsa).expect("memory"));
        // SAFETY: we own key and exponent; the callback may be null; the exponent is freed once.
        unsafe {
            one(aws::BN_set_word(exponent, 65537));
            one(aws::RSA_generate_key_ex(rsa, bits as c_int, exponent, ptr::null_mut()));
            aws::BN_free(exponent);
        }
        pair
    }

    fn number(&self, of: unsafe extern "C" fn(*const aws::RSA) -> *const aws::BIGNUM) -> Vec<u8> {
        // SAFETY: the key outlives its numbers.
        let number = unsafe { of(self.0.as_ptr()) };
        // SAFETY: as above.
        let mut bytes = vec![0; unsafe { aws::BN_num_bytes(number) } as usize];
        // SAFETY: `bytes` has the length of the number.
        unsafe { aws::BN_bn2bin(number, bytes.as_mut_ptr()) };
        bytes
    }

    fn len(&self) -> usize {
        // SAFETY: the key is alive and has a modulus.
        unsafe { aws::RSA_size(self.0.as_ptr()) as usize }
    }

    fn sign_pkcs1(&self, digest: &[u8], out: &mut [u8]) -> usize {
        assert!(out.len() >= self.len());
        let mut len = 0;
        // SAFETY: the length is that of the digest; `out` has at least the length of the modulus.
        one(unsafe {
            aws::RSA_sign(
                aws::NID_sha256,
                digest.as_ptr(),
                digest.len(),
                out.as_mut_ptr(),
                &mut len,
                self.0.as_ptr(),
            )
        });
        len as usize
    }

    fn sign_pss(&self, digest: &[u8], out: &mut [u8]) -> usize {
        let mut len = 0;
        // SAFETY: the lengths are those of the slices; the hashes are statics.
        one(unsafe {
            aws::RSA_sign_pss_mgf1(
                self.0.as_ptr(),
                &mut len,
                out.as_mut_ptr(),
                out.len(),
                digest.as_ptr(),
                digest.len(),
                aws::EVP_sha256(),
                aws::EVP_sha256(),
                SALT as c_int,
            )
        });
        len
    }

    fn verify_pkcs1(&self, digest: &[u8], signature: &[u8]) {
        // SAFETY: the lengths are those of the slices.
        one(unsafe {
            aws::RSA_verify(
                aws::NID_sha256,
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.0.as_ptr(),
            )
        });
    }

    fn verify_pss(&self, digest: &[u8], signature: &[u8]) {
        // SAFETY: the lengths are those of the slices; the hashes are statics.
        one(unsafe {
            aws::RSA_verify_pss_mgf1(
                self.0.as_ptr(),
                digest.as_ptr(),
                digest.len(),
                aws::EVP_sha256(),
                aws::EVP_sha256(),
                SALT as c_int,
                signature.as_ptr(),
                signature.len(),
            )
        });
    }
}

impl BaselinePair for RsaPair {
    fn public(&self) -> PublicParts {
        PublicParts::Rsa { n: self.number(aws::RSA_get0_n), e: self.number(aws::RSA_get0_e) }
    }

    #[inline]
    fn sign(&self, scheme: Scheme, digest: &[u8], out: &mut [u8]) -> usize {
        if scheme == Scheme::RsaPss { self.sign_pss(digest, out) } else { self.sign_pkcs1(digest, out) }
    }

    #[inline]
    fn verify(&self, scheme: Scheme, digest: &[u8], signature: &[u8]) {
        match scheme {
            Scheme::RsaPss => self.verify_pss(digest, signature),
            _ => self.verify_pkcs1(digest, signature),
        }
    }
}

impl Drop for RsaPair {
    fn drop(&mut self) {
        // SAFETY: we own the key.
        unsafe { aws::RSA_free(self.0.as_ptr()) }
    }
}
