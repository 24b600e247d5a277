//! Hedged ML-DSA, with the internal functions that AWS-LC's EVP interface calls. The internal
//! functions read the expanded key in place; the EVP interface copies it for each signature.

use jeton::backend::{MlDsa, PublicParts};

use super::internal::{internal_functions, random};
use super::{BaselinePair, one};
use crate::scheme::Scheme;

pub struct MlDsaPair {
    set: MlDsa,
    public: Vec<u8>,
    private: Vec<u8>,
    functions: Functions,
}

/// FIPS 204, algorithm 2: the prefix of a pure signature with an empty context.
const PREFIX: [u8; 2] = [0, 0];

impl MlDsaPair {
    pub(super) fn generate(set: MlDsa) -> Self {
        let functions = functions(set);
        let (mut public, mut private) = (vec![0; set.public_len()], vec![0; set.private_len()]);
        let seed = random::<32>();
        // SAFETY: the three buffers have the lengths of the parameter set.
        one(unsafe { (functions.keypair)(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) });
        Self { set, public, private, functions }
    }
}

impl BaselinePair for MlDsaPair {
    fn public(&self) -> PublicParts {
        PublicParts::MlDsa { set: self.set, key: self.public.clone() }
    }

    fn sign(&self, _: Scheme, message: &[u8], out: &mut [u8]) -> usize {
        assert!(out.len() >= self.set.signature_len());
        let random = random::<32>();
        let mut len = 0;
        // SAFETY: key and output have the lengths of the parameter set, `random` has 32 bytes; the
        // others are passed with their lengths.
        one(unsafe {
            (self.functions.sign)(
                self.private.as_ptr(),
                out.as_mut_ptr(),
                &mut len,
                message.as_ptr(),
                message.len(),
                PREFIX.as_ptr(),
                PREFIX.len(),
                random.as_ptr(),
            )
        });
        len
    }

    fn verify(&self, _: Scheme, message: &[u8], signature: &[u8]) {
        // SAFETY: the key has the length of the parameter set; the others are passed with their
        // lengths.
        one(unsafe {
            (self.functions.verify)(
                self.public.as_ptr(),
                signature.as_ptr(),
                signature.len(),
                message.as_ptr(),
                message.len(),
                PREFIX.as_ptr(),
                PREFIX.len(),
            )
        });
    }
}

internal_functions! { $
    keypair "_keypair_internal" (public: *mut u8, private: *mut u8, seed: *const u8),
    sign "_sign_internal" (
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
        random: *const u8,
    ),
    verify "_verify_internal" (
        public: *const u8,
        signature: *const u8,
        signature_len: usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
    ),
}

fn functions(set: MlDsa) -> Functions {
    match set {
        MlDsa::MlDsa44 => functions_of!("ml_dsa_44"),
        MlDsa::MlDsa65 => functions_of!("ml_dsa_65"),
        MlDsa::MlDsa87 => functions_of!("ml_dsa_87"),
    }
}
