//! Elliptic curve Diffie-Hellman (PKCS#11 3.2, "Elliptic curves").

use super::{Work, digest};
use crate::backend::{Hash, Provider};
use crate::error::{Error, Result};
use crate::object::curve;
use crate::object::make::Cut;
use crate::secret::Secret;

impl Work<'_> {
    /// Returns the key material and how to cut it (PKCS#11 3.2, "Elliptic curve Diffie-Hellman key
    /// derivation"). Without a KDF a shorter key is the end of the shared secret. A KDF gives the
    /// wanted length.
    pub(super) fn ecdh(&self, kdf: Option<Hash>, shared: &[u8], peer: &[u8]) -> Result<(Secret, Cut)> {
        let provider = self.token.provider();
        let private = self.base.private_key(provider)?;
        let bare = |error| match error {
            Error::DataInvalid | Error::AttributeValueInvalid => Error::MechanismParamInvalid,
            other => other,
        };
        // The point may be bare or in a DER octet string, and a bare point may look like DER. So
        // both forms are tried.
        let secret = private
            .agree(peer)
            .or_else(|_| curve::octets(peer).and_then(|peer| private.agree(peer)))
            .map_err(bare)?;
        match kdf {
            None if shared.is_empty() => Ok((secret, Cut::Leading)),
            None => Err(Error::MechanismParamInvalid),
            Some(hash) => {
                let len = self.wanted.unwrap_or(secret.len());
                Ok((x963(provider, hash, &secret, shared, len)?, Cut::Not))
            }
        }
    }
}

/// Computes the KDF of ANSI X9.63, 5.6.3: the concatenated digests of secret, counter and shared
/// information.
pub(in crate::module) fn x963(
    provider: &Provider,
    hash: Hash,
    secret: &Secret,
    shared: &[u8],
    len: usize,
) -> Result<Secret> {
    let mut out = Secret::default();
    for counter in 1..=u32::MAX {
        out.extend(&digest(provider, hash, &[secret, &counter.to_be_bytes(), shared])?)?;
        if out.len() >= len {
            break;
        }
    }
    Ok(out[..len].into())
}
