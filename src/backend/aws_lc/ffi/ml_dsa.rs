//! ML-DSA keys through the functions of AWS-LC's `ml_dsa.h`. The library archive exports them, but
//! aws-lc-sys does not bind them.

use jeton_secret::Secret;

use super::{check, check_key, functions_of_sets};
use crate::backend::api::MlDsa;
use crate::error::{Error, Result};

/// Expands a seed (ML-DSA.KeyGen_internal). Returns the public key and the expanded private key.
pub(crate) fn ml_dsa_expand(set: MlDsa, seed: &[u8; MlDsa::SEED_LEN]) -> Result<(Vec<u8>, Secret)> {
    let (mut public, mut private) = (vec![0; set.public_len()], Secret::zeroed(set.private_len()));
    // SAFETY: all three have the lengths of the parameter set.
    let code = unsafe { (functions(set).keypair)(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) };
    check("ml_dsa_keypair_internal", code)?;
    Ok((public, private))
}

/// Checks that an expanded private key is consistent, and returns its public key.
pub(crate) fn ml_dsa_public(set: MlDsa, private: &[u8]) -> Result<Vec<u8>> {
    expect(private, set.private_len())?;
    let mut public = vec![0; set.public_len()];
    // SAFETY: both have the lengths of the parameter set.
    check_key(unsafe { (functions(set).public)(public.as_mut_ptr(), private.as_ptr()) })?;
    Ok(public)
}

pub(super) fn expect(bytes: &[u8], len: usize) -> Result<()> {
    if bytes.len() == len { Ok(()) } else { Err(Error::DataInvalid) }
}

functions_of_sets! { $
    keypair = "_keypair_internal"(public: *mut u8, private: *mut u8, seed: *const u8);
    public = "_pack_pk_from_sk"(public: *mut u8, private: *const u8);
}

const fn functions(set: MlDsa) -> Functions {
    match set {
        MlDsa::MlDsa44 => functions!("aws_lc_0_47_0_ml_dsa_44"),
        MlDsa::MlDsa65 => functions!("aws_lc_0_47_0_ml_dsa_65"),
        MlDsa::MlDsa87 => functions!("aws_lc_0_47_0_ml_dsa_87"),
    }
}
