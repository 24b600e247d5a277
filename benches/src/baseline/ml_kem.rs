//! ML-KEM, with the internal functions that AWS-LC's EVP interface calls. These functions return 0
//! for success.

use jeton::backend::MlKem;

use super::internal::{internal_functions, random};

pub struct MlKemPair {
    set: MlKem,
    functions: Functions,
    public: Vec<u8>,
    private: Vec<u8>,
}

impl MlKemPair {
    pub fn generate(set: MlKem) -> Self {
        let functions = functions(set);
        let (public, private) = (vec![0; set.public_len()], vec![0; set.private_len()]);
        let mut pair = Self { set, functions, public, private };
        let (mut public_len, mut private_len) = (pair.public.len(), pair.private.len());
        let seed = random::<{ MlKem::SEED_LEN }>();
        // SAFETY: the keys are passed with their lengths; the seed has the required length.
        let code = unsafe {
            (functions.keypair)(
                pair.public.as_mut_ptr(),
                &mut public_len,
                pair.private.as_mut_ptr(),
                &mut private_len,
                seed.as_ptr(),
            )
        };
        assert_eq!(code, 0, "AWS-LC failed");
        pair
    }

    /// Writes the ciphertext and the shared secret (32 bytes) into the two buffers.
    pub fn encapsulate(&self, ciphertext: &mut [u8], secret: &mut [u8; 32]) {
        let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
        // SAFETY: the outputs are passed with their lengths; the key has the length of the
        // parameter set.
        let code = unsafe {
            (self.functions.encapsulate)(
                ciphertext.as_mut_ptr(),
                &mut ciphertext_len,
                secret.as_mut_ptr(),
                &mut secret_len,
                self.public.as_ptr(),
            )
        };
        assert_eq!(code, 0, "AWS-LC failed");
    }

    pub fn decapsulate(&self, ciphertext: &[u8], secret: &mut [u8; 32]) {
        assert_eq!(ciphertext.len(), self.set.ciphertext_len());
        let mut secret_len = secret.len();
        // SAFETY: the output is passed with its length; ciphertext and key have the lengths of the
        // parameter set.
        let code = unsafe {
            (self.functions.decapsulate)(
                secret.as_mut_ptr(),
                &mut secret_len,
                ciphertext.as_ptr(),
                self.private.as_ptr(),
            )
        };
        assert_eq!(code, 0, "AWS-LC failed");
    }
}

internal_functions! { $
    keypair "_keypair_deterministic" (
        public: *mut u8,
        public_len: *mut usize,
        private: *mut u8,
        private_len: *mut usize,
        seed: *const u8,
    ),
    encapsulate "_encapsulate" (
        ciphertext: *mut u8,
        ciphertext_len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
        public: *const u8,
    ),
    decapsulate "_decapsulate" (
        secret: *mut u8,
        secret_len: *mut usize,
        ciphertext: *const u8,
        private: *const u8,
    ),
}

fn functions(set: MlKem) -> Functions {
    match set {
        MlKem::MlKem512 => functions_of!("ml_kem_512"),
        MlKem::MlKem768 => functions_of!("ml_kem_768"),
        MlKem::MlKem1024 => functions_of!("ml_kem_1024"),
    }
}
