//! ML-DSA through the functions of AWS-LC's `ml_dsa.h`. The library archive exports them, but
//! aws-lc-sys does not bind them.
//!
//! AWS-LC's EVP interface has no deterministic signatures. It also copies and looks up the key for
//! each signature. `prefix` precedes the message or the digest (FIPS 204, 5.2 and 5.4).

use jeton_secret::Secret;

use super::{check, check_key, functions_of_sets, refused};
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

pub(crate) fn ml_dsa_sign(
    set: MlDsa,
    private: &[u8],
    prefix: &[u8],
    message: &[u8],
    random: &[u8; 32],
    out: &mut [u8],
) -> Result<()> {
    expect(private, set.private_len())?;
    expect(out, set.signature_len())?;
    let mut len = 0;
    // SAFETY: key and output have the lengths of the parameter set, `random` has 32 bytes, and the
    // rest is passed with its length.
    let code = unsafe {
        (functions(set).sign)(
            private.as_ptr(),
            out.as_mut_ptr(),
            &mut len,
            message.as_ptr(),
            message.len(),
            prefix.as_ptr(),
            prefix.len(),
            random.as_ptr(),
        )
    };
    check("ml_dsa_sign_internal", code)
}

pub(crate) fn ml_dsa_verify(
    set: MlDsa,
    public: &[u8],
    prefix: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<()> {
    expect(public, set.public_len())?;
    // SAFETY: the key has the length of the parameter set, and the rest is passed with its length.
    let code = unsafe {
        (functions(set).verify)(
            public.as_ptr(),
            signature.as_ptr(),
            signature.len(),
            message.as_ptr(),
            message.len(),
            prefix.as_ptr(),
            prefix.len(),
        )
    };
    if code == 1 { Ok(()) } else { Err(refused(Error::SignatureInvalid)) }
}

fn expect(bytes: &[u8], len: usize) -> Result<()> {
    if bytes.len() == len { Ok(()) } else { Err(Error::DataInvalid) }
}

functions_of_sets! { $
    keypair = "_keypair_internal"(public: *mut u8, private: *mut u8, seed: *const u8);
    public = "_pack_pk_from_sk"(public: *mut u8, private: *const u8);
    sign = "_sign_internal"(
        private: *const u8,
        signature: *mut u8,
        signature_len: *mut usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
        random: *const u8,
    );
    verify = "_verify_internal"(
        public: *const u8,
        signature: *const u8,
        signature_len: usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
    );
}

const fn functions(set: MlDsa) -> Functions {
    match set {
        MlDsa::MlDsa44 => functions!("aws_lc_0_47_0_ml_dsa_44"),
        MlDsa::MlDsa65 => functions!("aws_lc_0_47_0_ml_dsa_65"),
        MlDsa::MlDsa87 => functions!("aws_lc_0_47_0_ml_dsa_87"),
    }
}
