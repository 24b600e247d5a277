//! The crypto libraries: random bytes, digests, ciphers, MACs, keys, signers and verifiers.
//!
//! `api/` is the contract, and each library implements it: `aws_lc/` and `rustcrypto/` mirror each
//! other, so that files of the same name have the same task. `shared/` is written once for all, and
//! what we compute ourselves is the package `crypto/`.
//! Only this file lists the libraries.

#![cfg_attr(
    not(any(feature = "aws-lc", feature = "fips", feature = "rustcrypto")),
    allow(dead_code, reason = "the null backend computes nothing")
)]

use crate::error::Result;

mod api;
#[cfg(any(feature = "aws-lc", feature = "fips"))]
pub mod aws_lc;
pub(crate) mod hash_based;
#[cfg(feature = "null-backend")]
pub mod null;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;
mod shared;

#[cfg(test)]
pub(crate) use api::Joint;
pub use api::{
    Aead, AeadScheme, Cipher, CipherMode, CipherScheme, Ciphers, Composite, Curve, Digest, Direction,
    Encryption, GcmParams, Growth, Hash, Hasher, HssType, Job, Keys, Mac, MacScheme, Macs, MlDsa, MlKem,
    Nonce, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts, Random, Renewal, RsaCrt,
    RsaPrivate, SHORTEST_RSA, SavedCipher, Scheme, Signer, SlhDsa, Stateful, Traditional, Uses, Verifier,
};
pub use shared::des3;
pub(crate) use shared::dh::check_group;
pub(crate) use shared::extra_bits;

impl Provider {
    /// The backends of this build. The first is the default.
    pub const ALL: &'static [&'static Provider] = &[
        #[cfg(any(feature = "aws-lc", feature = "fips"))]
        &aws_lc::PROVIDER,
        #[cfg(feature = "rustcrypto")]
        &rustcrypto::PROVIDER,
        #[cfg(feature = "null-backend")]
        &null::PROVIDER,
    ];

    /// Returns the backend with this name, or `None` if this build does not have it.
    pub fn named(name: &str) -> Option<&'static Provider> {
        Self::ALL.iter().copied().find(|provider| provider.name == name)
    }
}

const _: () = assert!(!Provider::ALL.is_empty(), "enable the feature aws-lc, rustcrypto or both");

#[cfg(all(feature = "fips", any(feature = "aws-lc", feature = "rustcrypto", feature = "postgresql")))]
compile_error!("the feature fips is a build of its own: --no-default-features --features fips");

/// Repeats the self-tests of the validated module. Fails with `FipsSelfTestFailed`. Without such a
/// module it does nothing.
pub(crate) fn self_test() -> Result<()> {
    #[cfg(feature = "fips")]
    if !aws_lc::self_test() {
        tracing::error!("AWS-LC FIPS: a self-test failed");
        return Err(crate::error::Error::FipsSelfTestFailed);
    }
    Ok(())
}

/// Says whether callers that wait may compute together, with vector instructions. Later signers
/// follow it.
#[cfg_attr(not(all(feature = "aws-lc", feature = "rustcrypto")), allow(unused_variables))]
pub(crate) fn allow_lanes(allowed: bool) {
    #[cfg(all(feature = "aws-lc", feature = "rustcrypto"))]
    jeton_crypto::lanes::allow(allowed);
}
