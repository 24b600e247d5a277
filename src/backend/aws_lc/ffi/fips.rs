//! What AWS-LC FIPS 3.1.0 has in another form than AWS-LC: the functions of ML-KEM, which take no
//! lengths and do not check keys. Also its self-tests and its service indicator.
//!
//! If a self-test or the test of a new pair fails, the module ends the process.

use std::ffi::{CStr, c_int};

use jeton_secret::Secret;

use super::digest::hash;
use super::{aws, equal, failed, functions_of_sets};
use crate::backend::api::{Hash, MlKem};
use crate::error::{Error, Result, require};

/// Repeats the integrity test and the self-tests.
pub(crate) fn self_test() -> bool {
    // SAFETY: the three functions have no arguments.
    unsafe {
        aws::FIPS_mode() == 1 && aws::BORINGSSL_integrity_test() == 1 && aws::BORINGSSL_self_test() == 1
    }
}

/// Returns the counter of the approved services that this thread has used.
pub(crate) fn service_indicator() -> u64 {
    // SAFETY: the function reads a counter of this thread.
    unsafe { aws::FIPS_service_indicator_before_call() }
}

/// Returns the name and the version of the module.
pub(crate) fn version() -> &'static str {
    // SAFETY: the function returns a string that lives as long as the process.
    unsafe { CStr::from_ptr(aws::awslc_version_string()) }.to_str().unwrap_or_default()
}

/// Expands a seed d || z (ML-KEM.KeyGen_internal). Returns the encapsulation key and the
/// decapsulation key.
pub(crate) fn ml_kem_expand(set: MlKem, seed: &[u8; MlKem::SEED_LEN]) -> Result<(Vec<u8>, Secret)> {
    let (mut public, mut private) = (vec![0; set.public_len()], Secret::zeroed(set.private_len()));
    // SAFETY: all three have the lengths of the parameter set.
    let code = unsafe { (functions(set).keypair)(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) };
    succeeded("ml_kem_keypair_deterministic", code)?;
    Ok((public, private))
}

/// Checks a decapsulation key (FIPS 203, 7.3) and returns the encapsulation key inside it.
pub(crate) fn ml_kem_public(set: MlKem, private: &[u8]) -> Result<Vec<u8>> {
    require(private.len() == set.private_len(), Error::DataInvalid)?;
    // dk is dk_PKE || ek || H(ek) || z. The last two have 32 bytes each.
    let end = set.private_len() - 64;
    let public = &private[end - set.public_len()..end];
    let mut digest = [0; 32];
    hash(Hash::Sha3_256, public, &mut digest)?;
    require(equal(&digest, &private[end..end + 32]), Error::DataInvalid)?;
    ml_kem_check(set, public)?;
    Ok(public.to_vec())
}

/// Checks an encapsulation key (FIPS 203, 7.2): each number of 12 bits is below 3329. Two of them
/// have three bytes.
pub(crate) fn ml_kem_check(set: MlKem, public: &[u8]) -> Result<()> {
    let is_reduced = |bytes: &[u8; 3]| {
        let [low, middle, high] = bytes.map(u16::from);
        low | (middle & 15) << 8 < 3329 && middle >> 4 | high << 4 < 3329
    };
    let good =
        public.len() == set.public_len() && public[..public.len() - 32].as_chunks().0.iter().all(is_reduced);
    if good { Ok(()) } else { Err(Error::DataInvalid) }
}

/// Returns a ciphertext and the shared secret.
pub(crate) fn ml_kem_encapsulate(set: MlKem, public: &[u8]) -> Result<(Vec<u8>, Secret)> {
    require(public.len() == set.public_len(), Error::DataInvalid)?;
    let (mut ciphertext, mut secret) = (vec![0; set.ciphertext_len()], Secret::zeroed(MlKem::SECRET_LEN));
    // SAFETY: all three have the lengths of the parameter set.
    let code = unsafe {
        (functions(set).encapsulate)(ciphertext.as_mut_ptr(), secret.as_mut_ptr(), public.as_ptr())
    };
    succeeded("ml_kem_encapsulate", code)?;
    Ok((ciphertext, secret))
}

pub(crate) fn ml_kem_decapsulate(set: MlKem, private: &[u8], ciphertext: &[u8]) -> Result<Secret> {
    if private.len() != set.private_len() || ciphertext.len() != set.ciphertext_len() {
        return Err(Error::EncryptedDataLenRange);
    }
    let mut secret = Secret::zeroed(MlKem::SECRET_LEN);
    // SAFETY: all three have the lengths of the parameter set.
    let code =
        unsafe { (functions(set).decapsulate)(secret.as_mut_ptr(), ciphertext.as_ptr(), private.as_ptr()) };
    succeeded("ml_kem_decapsulate", code)?;
    Ok(secret)
}

fn succeeded(function: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(function)) }
}

functions_of_sets! { $
    keypair = "_keypair_deterministic"(public: *mut u8, private: *mut u8, seed: *const u8);
    encapsulate = "_encapsulate"(ciphertext: *mut u8, secret: *mut u8, public: *const u8);
    decapsulate = "_decapsulate"(secret: *mut u8, ciphertext: *const u8, private: *const u8);
}

const fn functions(set: MlKem) -> Functions {
    match set {
        MlKem::MlKem512 => functions!("aws_lc_fips_0_13_11_ml_kem_512"),
        MlKem::MlKem768 => functions!("aws_lc_fips_0_13_11_ml_kem_768"),
        MlKem::MlKem1024 => functions!("aws_lc_fips_0_13_11_ml_kem_1024"),
    }
}
