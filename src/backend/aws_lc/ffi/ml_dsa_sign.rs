//! ML-DSA signatures through the functions of AWS-LC's `ml_dsa.h`, as in `ml_dsa.rs`.
//!
//! AWS-LC's EVP interface has no deterministic signatures. It also copies and looks up the key for
//! each signature.

use super::ml_dsa::expect;
use super::{check, functions_of_sets, refused};
use crate::backend::api::MlDsa;
use crate::error::{Error, Result};

/// The input of a signature.
pub(crate) enum MlDsaInput<'a> {
    /// A message or a digest, with the bytes before it (FIPS 204, 5.2 and 5.4).
    Message { prefix: &'a [u8], message: &'a [u8] },
    /// A message representative.
    Mu(&'a [u8; 64]),
}

impl<'a> MlDsaInput<'a> {
    /// Returns the message or the representative, and the bytes before it. The library ignores the
    /// latter for a representative.
    fn parts(&self) -> (&'a [u8], &'a [u8]) {
        match *self {
            Self::Message { prefix, message } => (message, prefix),
            Self::Mu(mu) => (mu, &[]),
        }
    }
}

pub(crate) fn ml_dsa_sign(
    set: MlDsa,
    private: &[u8],
    input: &MlDsaInput<'_>,
    random: &[u8; 32],
    out: &mut [u8],
) -> Result<()> {
    expect(private, set.private_len())?;
    expect(out, set.signature_len())?;
    let (mut len, (message, prefix)) = (0, input.parts());
    // SAFETY: key and output have the lengths of the parameter set, `random` has 32 bytes, and the
    // rest is passed with its length.
    let code = unsafe {
        (functions(set, input).sign)(
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
    input: &MlDsaInput<'_>,
    signature: &[u8],
) -> Result<()> {
    expect(public, set.public_len())?;
    let (message, prefix) = input.parts();
    // SAFETY: the key has the length of the parameter set, and the rest is passed with its length.
    let code = unsafe {
        (functions(set, input).verify)(
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

functions_of_sets! { $
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

const fn functions(set: MlDsa, input: &MlDsaInput<'_>) -> Functions {
    match (set, input) {
        (MlDsa::MlDsa44, MlDsaInput::Message { .. }) => functions!("aws_lc_0_47_0_ml_dsa_44"),
        (MlDsa::MlDsa65, MlDsaInput::Message { .. }) => functions!("aws_lc_0_47_0_ml_dsa_65"),
        (MlDsa::MlDsa87, MlDsaInput::Message { .. }) => functions!("aws_lc_0_47_0_ml_dsa_87"),
        (MlDsa::MlDsa44, MlDsaInput::Mu(_)) => functions!("aws_lc_0_47_0_ml_dsa_extmu_44"),
        (MlDsa::MlDsa65, MlDsaInput::Mu(_)) => functions!("aws_lc_0_47_0_ml_dsa_extmu_65"),
        (MlDsa::MlDsa87, MlDsaInput::Mu(_)) => functions!("aws_lc_0_47_0_ml_dsa_extmu_87"),
    }
}
