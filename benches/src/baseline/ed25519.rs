//! Ed25519.

use aws_lc_sys as aws;
use jeton::backend::PublicParts;

use super::{BaselinePair, one};
use crate::scheme::Scheme;

/// The public and the private key in AWS-LC's form.
pub struct Ed25519Pair {
    public: [u8; 32],
    private: [u8; 64],
}

impl Ed25519Pair {
    pub(super) fn generate() -> Self {
        let mut pair = Self { public: [0; 32], private: [0; 64] };
        // SAFETY: both arrays have the lengths that the function requires.
        unsafe { aws::ED25519_keypair(pair.public.as_mut_ptr(), pair.private.as_mut_ptr()) };
        pair
    }
}

impl BaselinePair for Ed25519Pair {
    fn public(&self) -> PublicParts {
        PublicParts::Ed25519 { point: self.public }
    }

    fn sign(&self, _: Scheme, message: &[u8], out: &mut [u8]) -> usize {
        let out = &mut out[..64];
        // SAFETY: the length is that of the message; the others have the required lengths.
        one(unsafe {
            aws::ED25519_sign(out.as_mut_ptr(), message.as_ptr(), message.len(), self.private.as_ptr())
        });
        out.len()
    }

    fn verify(&self, _: Scheme, message: &[u8], signature: &[u8]) {
        let signature: &[u8; 64] = signature.try_into().expect("a signature of 64 bytes");
        // SAFETY: the length is that of the message; the others have the required lengths.
        one(unsafe {
            aws::ED25519_verify(message.as_ptr(), message.len(), signature.as_ptr(), self.public.as_ptr())
        });
    }
}
