//! Ed25519. AWS-LC's private key is the seed followed by the public key.

use std::ffi::c_int;

use jeton_secret::Secret;

use super::{aws, check, refused};
use crate::error::{Error, Result};

unsafe extern "C" {
    /// From `curve25519/internal.h`. AWS-LC exports this function, but aws-lc-sys does not declare
    /// it. Returns 1 if the public key is the encoding of a point.
    #[cfg_attr(not(feature = "fips"), link_name = "aws_lc_0_47_0_ED25519_check_public_key")]
    #[cfg_attr(feature = "fips", link_name = "aws_lc_fips_0_13_11_ED25519_check_public_key")]
    fn ED25519_check_public_key(public: *const u8) -> c_int;
}

/// Returns the public key of a seed, and the private key in AWS-LC's form (64 bytes).
pub(crate) fn ed25519_public(seed: &[u8; 32]) -> ([u8; 32], Secret) {
    let (mut public, mut private) = ([0; 32], Secret::zeroed(64));
    // SAFETY: the arrays have the lengths that the function requires: 32, 64 and 32 bytes.
    unsafe { aws::ED25519_keypair_from_seed(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr()) };
    (public, private)
}

pub(crate) fn ed25519_is_on_curve(public: &[u8; 32]) -> bool {
    // SAFETY: the function reads the 32 bytes of `public`.
    let on_curve = unsafe { ED25519_check_public_key(public.as_ptr()) } == 1;
    if !on_curve {
        refused(Error::DataInvalid);
    }
    on_curve
}

/// Signs with a private key in AWS-LC's form.
pub(crate) fn ed25519_sign(private: &[u8], input: Input<'_>, out: &mut [u8; 64]) -> Result<()> {
    let private: &[u8; 64] = private.as_array().ok_or(Error::DataInvalid)?;
    let (out, private) = (out.as_mut_ptr(), private.as_ptr());
    match input {
        Input::Pure(message) => {
            // SAFETY: the message is passed with its length. The other arrays have the
            // lengths that the function requires.
            let code = unsafe { aws::ED25519_sign(out, message.as_ptr(), message.len(), private) };
            check("ED25519_sign", code)
        }
        #[cfg(feature = "fips")]
        _ => Err(Error::MechanismInvalid),
        #[cfg(not(feature = "fips"))]
        // SAFETY: message and context are passed with their lengths. The other arrays have the
        // lengths that the function requires.
        Input::Context(message, context) => check("ED25519ctx_sign", unsafe {
            aws::ED25519ctx_sign(
                out,
                message.as_ptr(),
                message.len(),
                private,
                context.as_ptr(),
                context.len(),
            )
        }),
        #[cfg(not(feature = "fips"))]
        // SAFETY: the context is passed with its length. The other arrays have the lengths
        // that the function requires.
        Input::Digest(digest, context) => check("ED25519ph_sign_digest", unsafe {
            aws::ED25519ph_sign_digest(out, digest.as_ptr(), private, context.as_ptr(), context.len())
        }),
    }
}

pub(crate) fn ed25519_verify(public: &[u8; 32], input: Input<'_>, signature: &[u8; 64]) -> bool {
    let (public, signature) = (public.as_ptr(), signature.as_ptr());
    let code = match input {
        // SAFETY: the message is passed with its length. The other arrays have the lengths
        // that the function requires.
        Input::Pure(message) => unsafe {
            aws::ED25519_verify(message.as_ptr(), message.len(), signature, public)
        },
        #[cfg(feature = "fips")]
        _ => 0,
        #[cfg(not(feature = "fips"))]
        // SAFETY: message and context are passed with their lengths. The other arrays have the
        // lengths that the function requires.
        Input::Context(message, context) => unsafe {
            aws::ED25519ctx_verify(
                message.as_ptr(),
                message.len(),
                signature,
                public,
                context.as_ptr(),
                context.len(),
            )
        },
        #[cfg(not(feature = "fips"))]
        // SAFETY: the context is passed with its length. The other arrays have the lengths
        // that the function requires.
        Input::Digest(digest, context) => unsafe {
            aws::ED25519ph_verify_digest(digest.as_ptr(), signature, public, context.as_ptr(), context.len())
        },
    };
    if code != 1 {
        refused(Error::SignatureInvalid);
    }
    code == 1
}

/// The input of a signature. A context has at most 255 bytes.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "fips", allow(dead_code, reason = "AWS-LC FIPS 3.1.0 has pure Ed25519 only"))]
pub(crate) enum Input<'a> {
    /// The message, for Ed25519.
    Pure(&'a [u8]),
    /// The message and the context, for Ed25519ctx.
    Context(&'a [u8], &'a [u8]),
    /// The SHA-512 digest of the message, and the context, for Ed25519ph.
    Digest(&'a [u8; 64], &'a [u8]),
}
