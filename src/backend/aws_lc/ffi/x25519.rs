//! X25519 (RFC 7748).

use jeton_secret::Secret;

use super::{aws, refused};
use crate::error::{Error, Result};

/// Returns the public key of a scalar, which the function clamps.
pub(crate) fn x25519_public(scalar: &[u8; 32]) -> [u8; 32] {
    let mut public = [0; 32];
    // SAFETY: both arrays have the length that the function requires.
    unsafe { aws::X25519_public_from_private(public.as_mut_ptr(), scalar.as_ptr()) };
    public
}

/// Returns the shared secret. Fails with `DataInvalid` if it is zero.
pub(crate) fn x25519(scalar: &[u8; 32], peer: &[u8; 32]) -> Result<Secret> {
    let mut secret = Secret::zeroed(32);
    // SAFETY: all three have the length that the function requires.
    let code = unsafe { aws::X25519(secret.as_mut_ptr(), scalar.as_ptr(), peer.as_ptr()) };
    if code == 1 { Ok(secret) } else { Err(refused(Error::DataInvalid)) }
}
