//! ECDSA on the NIST curves. Signatures have the form r || s.

use std::ffi::c_int;
use std::hint::black_box;
use std::ptr::{self, NonNull};

use aws_lc_sys as aws;
use jeton::backend::{Curve, PublicParts};

use super::{BaselinePair, one};
use crate::operation::{Boxed, repeated};
use crate::scheme::Scheme;

/// An owned `EC_KEY`.
pub struct EcPair {
    key: NonNull<aws::EC_KEY>,
    curve: Curve,
}

// SAFETY: ec_key.h: threads may share a key as long as no function changes it. No function changes
// it after its creation.
unsafe impl Send for EcPair {}
// SAFETY: as for Send.
unsafe impl Sync for EcPair {}

impl EcPair {
    pub(super) fn generate(curve: Curve) -> Self {
        // SAFETY: takes a number; we own the result.
        let key = unsafe { aws::EC_KEY_new_by_curve_name(nid(curve)) };
        let pair = Self { key: NonNull::new(key).expect("memory"), curve };
        // SAFETY: we own the key, and it has its group.
        one(unsafe { aws::EC_KEY_generate_key(pair.key.as_ptr()) });
        pair
    }

    /// Returns a verifier with this key. It reuses its memory for each signature.
    fn verifier(&self) -> EcVerifier<'_> {
        // SAFETY: these functions take no arguments; we own the results.
        let (signature, r, s) = unsafe { (aws::ECDSA_SIG_new(), aws::BN_new(), aws::BN_new()) };
        // SAFETY: we own the signature, which takes ownership of the two numbers.
        one(unsafe { aws::ECDSA_SIG_set0(signature, r, s) });
        EcVerifier { pair: self, signature, r, s }
    }
}

impl BaselinePair for EcPair {
    fn public(&self) -> PublicParts {
        let mut point = vec![0; 1 + 2 * self.curve.len()];
        // SAFETY: the key outlives its group and point; the length is that of `point`; a null
        // scratch is allowed.
        let len = unsafe {
            aws::EC_POINT_point2oct(
                aws::EC_KEY_get0_group(self.key.as_ptr()),
                aws::EC_KEY_get0_public_key(self.key.as_ptr()),
                aws::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED,
                point.as_mut_ptr(),
                point.len(),
                ptr::null_mut(),
            )
        };
        assert_eq!(len, point.len());
        PublicParts::Ec { curve: self.curve, point }
    }

    fn sign(&self, _: Scheme, digest: &[u8], out: &mut [u8]) -> usize {
        let len = self.curve.len();
        let (r, s) = out[..2 * len].split_at_mut(len);
        // SAFETY: the key is alive, the length is that of the digest; we own the result and free it
        // below.
        let signature = unsafe { aws::ECDSA_do_sign(digest.as_ptr(), digest.len(), self.key.as_ptr()) };
        assert!(!signature.is_null());
        // SAFETY: the signature outlives its numbers; the lengths are those of `r` and `s`.
        unsafe {
            one(aws::BN_bn2bin_padded(r.as_mut_ptr(), len, aws::ECDSA_SIG_get0_r(signature)));
            one(aws::BN_bn2bin_padded(s.as_mut_ptr(), len, aws::ECDSA_SIG_get0_s(signature)));
            aws::ECDSA_SIG_free(signature);
        }
        2 * len
    }

    fn verify(&self, _: Scheme, digest: &[u8], signature: &[u8]) {
        self.verifier().verify(digest, signature);
    }

    fn verifying(&self, scheme: Scheme, input: &'static [u8]) -> Boxed<'_> {
        let (signature, mut verifier) = (self.signature(scheme, input), self.verifier());
        repeated(move || verifier.verify(black_box(input), black_box(&signature)))
    }
}

impl Drop for EcPair {
    fn drop(&mut self) {
        // SAFETY: we own the key.
        unsafe { aws::EC_KEY_free(self.key.as_ptr()) }
    }
}

/// A verifier that writes the numbers of each signature into the same structure.
pub struct EcVerifier<'a> {
    pair: &'a EcPair,
    signature: *mut aws::ECDSA_SIG,
    r: *mut aws::BIGNUM,
    s: *mut aws::BIGNUM,
}

impl EcVerifier<'_> {
    fn verify(&mut self, digest: &[u8], signature: &[u8]) {
        let (r, s) = signature.split_at(self.pair.curve.len());
        // SAFETY: both numbers belong to the signature, which we own and only this function uses;
        // the lengths are those of the slices.
        let code = unsafe {
            aws::BN_bin2bn(r.as_ptr(), r.len(), self.r);
            aws::BN_bin2bn(s.as_ptr(), s.len(), self.s);
            aws::ECDSA_do_verify(digest.as_ptr(), digest.len(), self.signature, self.pair.key.as_ptr())
        };
        one(code);
    }
}

impl Drop for EcVerifier<'_> {
    fn drop(&mut self) {
        // SAFETY: we own the signature, which owns its numbers.
        unsafe { aws::ECDSA_SIG_free(self.signature) }
    }
}

const fn nid(curve: Curve) -> c_int {
    match curve {
        Curve::P224 => aws::NID_secp224r1,
        Curve::P256 => aws::NID_X9_62_prime256v1,
        Curve::P384 => aws::NID_secp384r1,
        Curve::P521 => aws::NID_secp521r1,
        Curve::Secp256k1 => aws::NID_secp256k1,
        // AWS-LC has no other curves.
        _ => aws::NID_undef,
    }
}
