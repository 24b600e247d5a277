//! Elliptic curve Diffie-Hellman (PKCS#11 3.2, "Elliptic curves").

use jeton_secret::Secret;

use super::digest;
use crate::backend::{PrivateKey, Provider};
use crate::error::{Error, Result};
use crate::mechanism::AgreementKdf;
use crate::mechanism::field;
use crate::object::key_type::ec;
use crate::object::make::Cut;

/// Returns the key material and how to cut it (PKCS#11 3.2, "Elliptic curve Diffie-Hellman key
/// derivation"). Without a KDF, a shorter derived key gets the last bytes of the shared secret. A
/// KDF gives the `wanted` length. Fails with `MechanismParamInvalid` if `peer` is not a public key
/// of the same curve.
pub(in crate::functions) fn agree(
    provider: &Provider,
    private: &dyn PrivateKey,
    (kdf, shared): (Option<AgreementKdf>, &[u8]),
    peer: &[u8],
    wanted: Option<usize>,
) -> Result<(Secret, Cut)> {
    let bare = |error| match error {
        Error::DataInvalid | Error::AttributeValueInvalid => field::refused("pPublicData"),
        // This build lacks the hash of the KDF.
        Error::MechanismInvalid => field::refused("kdf"),
        other => other,
    };
    if peer.is_empty() {
        return Err(field::refused("pPublicData"));
    }
    // The point may be bare or in a DER octet string, and a bare point may look like DER. So both
    // forms are tried.
    let secret = private
        .agree(peer)
        .or_else(|_| ec::octets(peer).and_then(|peer| private.agree(peer)))
        .map_err(bare)?;
    match kdf {
        None if shared.is_empty() => Ok((secret, Cut::Leading)),
        None => Err(field::refused("pSharedData, which CKD_NULL does not take")),
        Some(kdf) => {
            let len = wanted.unwrap_or(secret.len());
            Ok((stretch(provider, kdf, &secret, shared, len).map_err(bare)?, Cut::Not))
        }
    }
}

/// Computes the KDF of ANSI X9.63, 5.6.3, or of SP 800-56A, 5.8.1: the concatenated digests of
/// secret, counter and shared information.
pub(in crate::functions) fn stretch(
    provider: &Provider,
    kdf: AgreementKdf,
    secret: &Secret,
    shared: &[u8],
    len: usize,
) -> Result<Secret> {
    let mut out = Secret::default();
    for counter in 1..=u32::MAX {
        let counter = counter.to_be_bytes();
        let block = match kdf {
            AgreementKdf::X963(hash) => digest(provider, hash, &[secret, &counter, shared])?,
            AgreementKdf::OneStep(hash) => digest(provider, hash, &[&counter, secret, shared])?,
        };
        out.extend(&block)?;
        if out.len() >= len {
            break;
        }
    }
    Ok(out[..len].into())
}
