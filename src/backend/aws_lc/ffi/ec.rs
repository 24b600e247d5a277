//! Keys on the NIST curves and secp256k1, ECDSA with two integers, and Diffie-Hellman.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use jeton_secret::{Secret, wipe_stack};

use super::{Bignum, aws, check, check_key, failed, owned, refused, to_padded};
use crate::backend::api::Curve;
use crate::error::{Error, Result, require};

/// The depth in bytes to which the stack is wiped after `ECDSA_do_sign`, which leaves the scalar
/// there. The function hashes the scalar for its nonce, and wipes neither the first block of the
/// hash nor its message schedule. The frames of the function take about 600 bytes. The frames of
/// the hash, which are below them, take less than another 600 bytes.
const SIGN_DEPTH: usize = 2 << 10;

/// An owned `EC_KEY`, public or private. It never changes after its creation.
pub(crate) struct EcKey {
    key: NonNull<aws::EC_KEY>,
    curve: Curve,
}

// SAFETY: ec_key.h: several threads may use a key at once through functions that do not mutate it.
// Signing, verifying and reading are such functions. We call no other function on a key after its
// creation.
unsafe impl Send for EcKey {}
// SAFETY: as for `Send`.
unsafe impl Sync for EcKey {}

impl EcKey {
    pub(crate) fn generate(curve: Curve) -> Result<Self> {
        let key = Self::empty(curve)?;
        // SAFETY: the key is ours and has its group.
        #[cfg(not(feature = "fips"))]
        check("EC_KEY_generate_key", unsafe { aws::EC_KEY_generate_key(key.key.as_ptr()) })?;
        // SAFETY: as above. The function also tests the pair.
        #[cfg(feature = "fips")]
        check("EC_KEY_generate_key_fips", unsafe { aws::EC_KEY_generate_key_fips(key.key.as_ptr()) })?;
        Ok(key)
    }

    /// Creates a private key. The scalar must be from 1 to the order minus 1. Neither signing nor
    /// ECDH needs the public key, so only [`point`](Self::point) computes it. For P-256 that takes
    /// half as long as a signature.
    pub(crate) fn private(curve: Curve, scalar: &[u8]) -> Result<Self> {
        let key = Self::empty(curve)?;
        let scalar = Bignum::new(scalar)?;
        // SAFETY: the key is ours and has its group. The scalar is alive and copied.
        check_key(unsafe { aws::EC_KEY_set_private_key(key.key.as_ptr(), scalar.as_ptr()) })?;
        Ok(key)
    }

    /// Creates a public key from `04 || x || y` or a compressed point. The coordinates must be in
    /// range. The point must be on the curve and not at infinity.
    pub(crate) fn public(curve: Curve, encoded: &[u8]) -> Result<Self> {
        let key = Self::empty(curve)?;
        let point = Point::new(&key)?;
        // SAFETY: group and point are alive, and `encoded` is readable for its length. Null means
        // no scratch memory.
        check_key(unsafe {
            aws::EC_POINT_oct2point(
                key.group(),
                point.0.as_ptr(),
                encoded.as_ptr(),
                encoded.len(),
                ptr::null_mut(),
            )
        })?;
        // SAFETY: the key is not shared yet. The point is alive and copied.
        check_key(unsafe { aws::EC_KEY_set_public_key(key.key.as_ptr(), point.0.as_ptr()) })?;
        // SAFETY: the key is alive and only read.
        check_key(unsafe { aws::EC_KEY_check_key(key.key.as_ptr()) })?;
        Ok(key)
    }

    /// Returns the public point as `04 || x || y`.
    pub(crate) fn point(&self) -> Result<Vec<u8>> {
        // SAFETY: the key is alive, and its own point lives as long as the key.
        let known = unsafe { aws::EC_KEY_get0_public_key(self.key.as_ptr()) };
        if known.is_null() {
            let multiple = self.multiple()?;
            return self.encoded(multiple.0.as_ptr());
        }
        self.encoded(known)
    }

    /// Returns the generator times the private scalar.
    fn multiple(&self) -> Result<Point> {
        let point = Point::new(self)?;
        // SAFETY: group, point and scalar are alive; a key without a point always has a scalar.
        // Null means no second summand and no scratch memory.
        check("EC_POINT_mul", unsafe {
            aws::EC_POINT_mul(
                self.group(),
                point.0.as_ptr(),
                aws::EC_KEY_get0_private_key(self.key.as_ptr()),
                ptr::null(),
                ptr::null(),
                ptr::null_mut(),
            )
        })?;
        Ok(point)
    }

    fn encoded(&self, point: *const aws::EC_POINT) -> Result<Vec<u8>> {
        let mut out = vec![0; 1 + 2 * self.curve.len()];
        // SAFETY: key and point are alive, and `out` is passed with its length. Null means no
        // scratch memory.
        let len = unsafe {
            aws::EC_POINT_point2oct(
                self.group(),
                point,
                aws::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED,
                out.as_mut_ptr(),
                out.len(),
                ptr::null_mut(),
            )
        };
        if len == out.len() { Ok(out) } else { Err(failed("EC_POINT_point2oct")) }
    }

    /// Returns the private scalar, with the length of the order.
    pub(crate) fn scalar(&self) -> Result<Secret> {
        // SAFETY: the key is alive, and the number belongs to it.
        let scalar = unsafe { aws::EC_KEY_get0_private_key(self.key.as_ptr()) };
        if scalar.is_null() {
            return Err(failed("EC_KEY_get0_private_key"));
        }
        let mut out = Secret::zeroed(self.curve.len());
        // SAFETY: the number lives as long as the key.
        unsafe { to_padded(scalar, &mut out) }?;
        Ok(out)
    }

    /// Signs with ECDSA. `r` and `s` have the length of the order.
    pub(crate) fn sign(&self, digest: &[u8], r: &mut [u8], s: &mut [u8]) -> Result<()> {
        // SAFETY: the key is alive, `digest` is readable for its length, and we own the result.
        let signature = unsafe { aws::ECDSA_do_sign(digest.as_ptr(), digest.len(), self.key.as_ptr()) };
        wipe_stack::<SIGN_DEPTH>();
        let signature = Signature(owned("ECDSA_do_sign", signature)?);
        // SAFETY: the signature and its r are alive.
        unsafe { to_padded(aws::ECDSA_SIG_get0_r(signature.0.as_ptr()), r) }?;
        // SAFETY: the signature and its s are alive.
        unsafe { to_padded(aws::ECDSA_SIG_get0_s(signature.0.as_ptr()), s) }
    }

    pub(crate) fn verify(&self, digest: &[u8], signature: &EcdsaSig) -> bool {
        let signature = signature.signature.0.as_ptr();
        // SAFETY: key and signature are alive, and `digest` is readable for its length.
        let code =
            unsafe { aws::ECDSA_do_verify(digest.as_ptr(), digest.len(), signature, self.key.as_ptr()) };
        if code != 1 {
            refused(Error::SignatureInvalid);
        }
        code == 1
    }

    /// Computes ECDH: the x-coordinate of this private key times the peer's point.
    pub(crate) fn agree(&self, peer: &EcKey) -> Result<Secret> {
        require(peer.curve == self.curve, Error::DataInvalid)?;
        let mut out = Secret::zeroed(self.curve.len());
        // SAFETY: both keys are alive and in one group, and `out` is passed with its length. Null
        // means no key derivation function.
        let len = unsafe {
            aws::ECDH_compute_key(
                out.as_mut_ptr().cast(),
                out.len(),
                aws::EC_KEY_get0_public_key(peer.key.as_ptr()),
                self.key.as_ptr(),
                None,
            )
        };
        // The order is prime and the point was validated. So only a failure of the library can give
        // another length.
        if usize::try_from(len) == Ok(out.len()) { Ok(out) } else { Err(failed("ECDH_compute_key")) }
    }

    fn empty(curve: Curve) -> Result<Self> {
        // SAFETY: the function takes a number, and we own its result.
        let key = unsafe { aws::EC_KEY_new_by_curve_name(nid(curve)) };
        Ok(Self { key: owned("EC_KEY_new_by_curve_name", key)?, curve })
    }

    fn group(&self) -> *const aws::EC_GROUP {
        // SAFETY: the key is alive, and its group lives as long as the key.
        unsafe { aws::EC_KEY_get0_group(self.key.as_ptr()) }
    }
}

impl Drop for EcKey {
    fn drop(&mut self) {
        // SAFETY: we own the key and no code uses it after this. AWS-LC wipes the memory that it
        // frees.
        unsafe { aws::EC_KEY_free(self.key.as_ptr()) }
    }
}

/// A signature to verify. Each verification fills its two numbers again.
pub(crate) struct EcdsaSig {
    signature: Signature,
    /// Owned by `signature`.
    r: NonNull<aws::BIGNUM>,
    /// Owned by `signature`.
    s: NonNull<aws::BIGNUM>,
}

// SAFETY: the numbers are not bound to a thread, and they are written only through `&mut`.
unsafe impl Send for EcdsaSig {}

impl EcdsaSig {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let signature = Signature(owned("ECDSA_SIG_new", unsafe { aws::ECDSA_SIG_new() })?);
        let (r, s) = (Bignum::new(&[])?, Bignum::new(&[])?);
        // SAFETY: the signature is ours and takes ownership of both numbers.
        check("ECDSA_SIG_set0", unsafe {
            aws::ECDSA_SIG_set0(signature.0.as_ptr(), r.0.as_ptr(), s.0.as_ptr())
        })?;
        // The signature frees them from here on.
        let (r, s) = (ManuallyDrop::new(r), ManuallyDrop::new(s));
        Ok(Self { signature, r: r.0, s: s.0 })
    }

    /// Sets both numbers from big-endian bytes.
    pub(crate) fn set(&mut self, r: &[u8], s: &[u8]) -> Result<()> {
        for (number, bytes) in [(self.r, r), (self.s, s)] {
            // SAFETY: the number is alive, and because of `&mut self` no other code uses it.
            // `bytes` is passed with its length.
            owned("BN_bin2bn", unsafe { aws::BN_bin2bn(bytes.as_ptr(), bytes.len(), number.as_ptr()) })?;
        }
        Ok(())
    }
}

struct Signature(NonNull<aws::ECDSA_SIG>);

impl Drop for Signature {
    fn drop(&mut self) {
        // SAFETY: we own the signature and no code uses it after this.
        unsafe { aws::ECDSA_SIG_free(self.0.as_ptr()) }
    }
}

struct Point(NonNull<aws::EC_POINT>);

impl Point {
    fn new(key: &EcKey) -> Result<Self> {
        // SAFETY: the group is alive, and static for a named curve. We own the result of the call.
        owned("EC_POINT_new", unsafe { aws::EC_POINT_new(key.group()) }).map(Self)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        // SAFETY: we own the point and no code uses it after this.
        unsafe { aws::EC_POINT_free(self.0.as_ptr()) }
    }
}

const fn nid(curve: Curve) -> c_int {
    match curve {
        Curve::P224 => aws::NID_secp224r1,
        Curve::P256 => aws::NID_X9_62_prime256v1,
        Curve::P384 => aws::NID_secp384r1,
        Curve::P521 => aws::NID_secp521r1,
        Curve::Secp256k1 => aws::NID_secp256k1,
        // The backend takes the brainpool curves from RustCrypto: AWS-LC has no groups for `t1`.
        Curve::BrainpoolP256r1 => aws::NID_brainpoolP256r1,
        Curve::BrainpoolP256t1 => aws::NID_brainpoolP256t1,
        Curve::BrainpoolP384r1 => aws::NID_brainpoolP384r1,
        Curve::BrainpoolP384t1 => aws::NID_brainpoolP384t1,
    }
}
