//! ML-KEM through the functions of AWS-LC's `ml_kem.h`. The library archive exports them, but
//! aws-lc-sys does not bind them. They return 0 for success.

use std::ffi::c_int;

use jeton_secret::Secret;

use super::{failed, functions_of_sets, refused};
use crate::backend::api::MlKem;
use crate::error::{Error, Result, require};

/// Expands a seed d || z (ML-KEM.KeyGen_internal). Returns the encapsulation key and the
/// decapsulation key.
pub(crate) fn ml_kem_expand(set: MlKem, seed: &[u8; MlKem::SEED_LEN]) -> Result<(Vec<u8>, Secret)> {
    let (mut public, mut private) = (vec![0; set.public_len()], Secret::zeroed(set.private_len()));
    let (mut public_len, mut private_len) = (public.len(), private.len());
    // SAFETY: both outputs are passed with their lengths, and the seed has the length that the
    // function requires.
    succeeded("ml_kem_keypair_deterministic", unsafe {
        (functions(set).keypair)(
            public.as_mut_ptr(),
            &mut public_len,
            private.as_mut_ptr(),
            &mut private_len,
            seed.as_ptr(),
        )
    })?;
    Ok((public, private))
}

/// Checks a decapsulation key (FIPS 203, 7.2 and 7.3) and returns the encapsulation key inside it
/// (FIPS 203, algorithm 16).
pub(crate) fn ml_kem_public(set: MlKem, private: &[u8]) -> Result<Vec<u8>> {
    require(private.len() == set.private_len(), Error::DataInvalid)?;
    // SAFETY: the function reads the key, which is passed with its length.
    let code = unsafe { (functions(set).check_private)(private.as_ptr(), private.len()) };
    valid(code)?;
    // dk is dk_PKE || ek || H(ek) || z. The last two have 32 bytes each.
    let end = set.private_len() - 64;
    let public = private[end - set.public_len()..end].to_vec();
    ml_kem_check(set, &public)?;
    Ok(public)
}

/// Checks an encapsulation key (FIPS 203, 7.2).
pub(crate) fn ml_kem_check(set: MlKem, public: &[u8]) -> Result<()> {
    require(public.len() == set.public_len(), Error::DataInvalid)?;
    // SAFETY: the function reads the key, which is passed with its length.
    valid(unsafe { (functions(set).check_public)(public.as_ptr(), public.len()) })
}

/// Returns a ciphertext and the shared secret.
pub(crate) fn ml_kem_encapsulate(set: MlKem, public: &[u8]) -> Result<(Vec<u8>, Secret)> {
    require(public.len() == set.public_len(), Error::DataInvalid)?;
    let (mut ciphertext, mut secret) = (vec![0; set.ciphertext_len()], Secret::zeroed(MlKem::SECRET_LEN));
    let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), secret.len());
    // SAFETY: both outputs are passed with their lengths, and the key has the length of the
    // parameter set.
    succeeded("ml_kem_encapsulate", unsafe {
        (functions(set).encapsulate)(
            ciphertext.as_mut_ptr(),
            &mut ciphertext_len,
            secret.as_mut_ptr(),
            &mut secret_len,
            public.as_ptr(),
        )
    })?;
    Ok((ciphertext, secret))
}

pub(crate) fn ml_kem_decapsulate(set: MlKem, private: &[u8], ciphertext: &[u8]) -> Result<Secret> {
    if private.len() != set.private_len() || ciphertext.len() != set.ciphertext_len() {
        return Err(Error::EncryptedDataLenRange);
    }
    let mut secret = Secret::zeroed(MlKem::SECRET_LEN);
    let mut len = secret.len();
    // SAFETY: the output is passed with its length, and key and ciphertext have the lengths of the
    // parameter set.
    succeeded("ml_kem_decapsulate", unsafe {
        (functions(set).decapsulate)(secret.as_mut_ptr(), &mut len, ciphertext.as_ptr(), private.as_ptr())
    })?;
    Ok(secret)
}

fn succeeded(function: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(function)) }
}

fn valid(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(refused(Error::DataInvalid)) }
}

functions_of_sets! { $
    keypair = "_keypair_deterministic"(
        public: *mut u8,
        public_len: *mut usize,
        private: *mut u8,
        private_len: *mut usize,
        seed: *const u8,
    );
    encapsulate = "_encapsulate"(
        ciphertext: *mut u8,
        ciphertext_len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
        public: *const u8,
    );
    decapsulate = "_decapsulate"(
        secret: *mut u8,
        secret_len: *mut usize,
        ciphertext: *const u8,
        private: *const u8,
    );
    check_public = "_check_pk"(public: *const u8, len: usize);
    check_private = "_check_sk"(private: *const u8, len: usize);
}

const fn functions(set: MlKem) -> Functions {
    match set {
        MlKem::MlKem512 => functions!("aws_lc_0_47_0_ml_kem_512"),
        MlKem::MlKem768 => functions!("aws_lc_0_47_0_ml_kem_768"),
        MlKem::MlKem1024 => functions!("aws_lc_0_47_0_ml_kem_1024"),
    }
}
