//! ML-KEM-768 through the functions below AWS-LC's EVP interface, as for ML-DSA. They return 0 for
//! success.

use std::ffi::c_int;

use aws_lc_sys as aws;
use jeton::backend::MlKem;

use super::one;

const SET: MlKem = MlKem::MlKem768;

/// The encapsulation key and the decapsulation key.
pub struct MlKemPair {
    public: Vec<u8>,
    private: Vec<u8>,
}

impl MlKemPair {
    /// Generates a key pair.
    pub fn generate() -> Self {
        let mut pair = Self { public: vec![0; SET.public_len()], private: vec![0; SET.private_len()] };
        let (mut public_len, mut private_len) = (pair.public.len(), pair.private.len());
        let mut seed = [0; MlKem::SEED_LEN];
        // SAFETY: the length is that of `seed`.
        one(unsafe { aws::RAND_bytes(seed.as_mut_ptr(), seed.len()) });
        // SAFETY: the keys are passed with their lengths; the seed has the required length.
        let code = unsafe {
            keypair(
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

    /// Writes the ciphertext (1088 bytes) and the shared secret (32 bytes) into the two buffers.
    pub fn encapsulate(&self, ciphertext: &mut [u8], secret: &mut [u8; 32]) {
        let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
        // SAFETY: the outputs are passed with their lengths; the key has the length of the
        // parameter set.
        let code = unsafe {
            encapsulate(
                ciphertext.as_mut_ptr(),
                &mut ciphertext_len,
                secret.as_mut_ptr(),
                &mut secret_len,
                self.public.as_ptr(),
            )
        };
        assert_eq!(code, 0, "AWS-LC failed");
    }

    /// Returns the shared secret of a ciphertext.
    pub fn decapsulate(&self, ciphertext: &[u8], secret: &mut [u8; 32]) {
        assert_eq!(ciphertext.len(), SET.ciphertext_len());
        let mut secret_len = secret.len();
        // SAFETY: the output is passed with its length; ciphertext and key have those of the
        // parameter set.
        let code = unsafe {
            decapsulate(secret.as_mut_ptr(), &mut secret_len, ciphertext.as_ptr(), self.private.as_ptr())
        };
        assert_eq!(code, 0, "AWS-LC failed");
    }
}

unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_ml_kem_768_keypair_deterministic"]
    fn keypair(
        public: *mut u8,
        public_len: *mut usize,
        private: *mut u8,
        private_len: *mut usize,
        seed: *const u8,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_ml_kem_768_encapsulate"]
    fn encapsulate(
        ciphertext: *mut u8,
        ciphertext_len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
        public: *const u8,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_ml_kem_768_decapsulate"]
    fn decapsulate(
        secret: *mut u8,
        secret_len: *mut usize,
        ciphertext: *const u8,
        private: *const u8,
    ) -> c_int;
}
