//! Safe functions around the C functions of AWS-LC. They take slices and return owned values.
//!
//! Most C functions report a failure as 0 or null, with details in an error queue of the thread.
//! [`failed`] logs and clears the queue. [`refused`] only clears the queue. It is for failures that
//! are an expected result, such as a bad signature or a malformed key.
#![allow(unsafe_code)]

mod cipher;
mod dh;
mod digest;
mod ec;
mod ed25519;
#[cfg(feature = "fips")]
mod fips;
mod mac;
#[cfg(not(feature = "fips"))]
mod ml_dsa;
#[cfg(not(feature = "fips"))]
mod ml_dsa_sign;
#[cfg(not(feature = "fips"))]
mod ml_kem;
mod rsa;
mod x25519;

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

#[cfg(feature = "fips")]
use aws_lc_fips_sys as aws;
#[cfg(not(feature = "fips"))]
use aws_lc_sys as aws;
use jeton_secret::Secret;

use crate::error::{Error, Result};

pub(super) use cipher::{AeadCtx, CipherCtx, Mode, chacha20};
pub(super) use dh::{power, safe_prime};
pub(super) use digest::{DigestCtx, hash};
pub(super) use ec::{EcKey, EcdsaSig};
pub(super) use ed25519::{
    Input as Ed25519Input, ed25519_is_on_curve, ed25519_public, ed25519_sign, ed25519_verify,
};
#[cfg(feature = "fips")]
use fips as ml_kem;
#[cfg(feature = "fips")]
pub(super) use fips::{self_test, service_indicator, version};
pub(super) use mac::{Cmac, Hmac, pbkdf2};
#[cfg(not(feature = "fips"))]
pub(super) use ml_dsa::{ml_dsa_expand, ml_dsa_public};
#[cfg(not(feature = "fips"))]
pub(super) use ml_dsa_sign::{MlDsaInput, ml_dsa_sign, ml_dsa_verify};
pub(super) use ml_kem::{ml_kem_check, ml_kem_decapsulate, ml_kem_encapsulate, ml_kem_expand, ml_kem_public};
pub(super) use rsa::{Rsa, oaep_decode, oaep_encode};
pub(super) use x25519::{x25519, x25519_public};

/// Declares `Functions`, C functions that each parameter set of an algorithm has, and the macro
/// `functions`, which collects those of one set by the prefix of their names in the archive. The
/// first argument is a dollar sign, which a macro cannot write for the macro that it declares.
macro_rules! functions_of_sets {
    ($d:tt $($function:ident = $name:literal($($argument:ident: $type:ty),* $(,)?);)*) => {
        struct Functions {
            $($function: unsafe extern "C" fn($($argument: $type),*) -> std::ffi::c_int,)*
        }

        macro_rules! functions {
            ($d prefix:literal) => {{
                unsafe extern "C" {
                    $(
                        #[link_name = concat!($d prefix, $name)]
                        fn $function($($argument: $type),*) -> std::ffi::c_int;
                    )*
                }
                Functions { $($function),* }
            }};
        }
    };
}

use functions_of_sets;

pub(super) fn random(out: &mut [u8]) -> Result<()> {
    // RAND_bytes holds a lock until its end, and a fork waits for it (abi/pkcs11/fork/aws_lc.c).
    out.chunks_mut(1 << 20).try_for_each(|part| {
        // SAFETY: `part` is writable for its length.
        check("RAND_bytes", unsafe { aws::RAND_bytes(part.as_mut_ptr(), part.len()) })
    })
}

/// Compares two slices in a time that depends only on their lengths.
pub(super) fn equal(a: &[u8], b: &[u8]) -> bool {
    // SAFETY: the lengths are equal, so both slices are readable for `a.len()` bytes.
    a.len() == b.len() && unsafe { aws::CRYPTO_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) } == 0
}

/// An owned unsigned integer that is wiped on drop.
pub(super) struct Bignum(NonNull<aws::BIGNUM>);

impl Bignum {
    /// Parses big-endian bytes. Leading zeros do not matter.
    pub(super) fn new(bytes: &[u8]) -> Result<Self> {
        // SAFETY: `bytes` is readable for its length. Null asks for a new number, which is ours.
        let number = unsafe { aws::BN_bin2bn(bytes.as_ptr(), bytes.len(), std::ptr::null_mut()) };
        owned("BN_bin2bn", number).map(Self)
    }

    /// Returns the size in bits, without leading zeros.
    pub(super) fn bits(&self) -> usize {
        // SAFETY: the number is alive and only read.
        unsafe { aws::BN_num_bits(self.as_ptr()) as usize }
    }

    /// Returns the big-endian bytes without leading zeros.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: the number is alive, and no code changes it while `self` is borrowed.
        unsafe { to_secret(self.as_ptr()) }.to_vec()
    }

    fn as_ptr(&self) -> *const aws::BIGNUM {
        self.0.as_ptr()
    }
}

impl Drop for Bignum {
    fn drop(&mut self) {
        // SAFETY: we own the number and no code uses it after this.
        unsafe { aws::BN_clear_free(self.0.as_ptr()) }
    }
}

/// Returns the big-endian bytes of a number without leading zeros.
///
/// # Safety
///
/// The caller promises that `number` is alive and does not change during the call.
unsafe fn to_secret(number: *const aws::BIGNUM) -> Secret {
    // SAFETY: the caller keeps the number alive.
    let mut out = Secret::zeroed(unsafe { aws::BN_num_bytes(number) } as usize);
    // SAFETY: `out` has the length of the same number.
    unsafe { aws::BN_bn2bin(number, out.as_mut_ptr()) };
    out
}

/// Writes the big-endian bytes of a number to the end of `out`, and zeros before them.
///
/// # Safety
///
/// The caller promises that `number` is alive and does not change during the call.
unsafe fn to_padded(number: *const aws::BIGNUM, out: &mut [u8]) -> Result<()> {
    // SAFETY: the caller keeps the number alive, and `out` is passed with its length.
    check("BN_bn2bin_padded", unsafe { aws::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), number) })
}

/// Checks a return code: all functions of AWS-LC that we call this way return 1 for success.
fn check(function: &'static str, code: c_int) -> Result<()> {
    if code == 1 { Ok(()) } else { Err(failed(function)) }
}

/// Like [`check`], for functions that fail if the caller's key is malformed.
fn check_key(code: c_int) -> Result<()> {
    if code == 1 { Ok(()) } else { Err(refused(Error::DataInvalid)) }
}

fn owned<T>(function: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| failed(function))
}

/// Logs a failure that should not occur, and returns `DeviceError`.
#[cold]
fn failed(function: &'static str) -> Error {
    const LEN: usize = 160;
    let mut text: [c_char; LEN] = [0; LEN];
    // SAFETY: the function writes at most LEN bytes and ends them with a zero.
    unsafe { aws::ERR_error_string_n(aws::ERR_peek_error(), text.as_mut_ptr(), LEN) };
    // SAFETY: `text` ends with a zero. The call above wrote one, and it was all zeros before.
    let reason = unsafe { CStr::from_ptr(text.as_ptr()) };
    tracing::error!(function, reason = %reason.to_string_lossy(), "AWS-LC failed");
    refused(Error::DeviceError)
}

/// Clears the error queue of the library and returns `error`, the meaning of the failure.
#[cold]
fn refused(error: Error) -> Error {
    // SAFETY: the function only touches the queue of this thread.
    unsafe { aws::ERR_clear_error() };
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::api::{Curve, Hash};

    #[test]
    fn numbers_lose_their_leading_zeros() {
        for (bytes, bits, expected) in
            [(&[][..], 0, &[][..]), (&[0, 0], 0, &[]), (&[0, 1, 0], 9, &[1, 0]), (&[0x80], 8, &[0x80])]
        {
            let number = Bignum::new(bytes).unwrap();
            assert_eq!((number.bits(), number.to_bytes().as_slice()), (bits, expected));
        }
    }

    #[test]
    fn equality_covers_lengths_too() {
        assert!(equal(b"", b"") && equal(b"ab", b"ab"));
        assert!(!equal(b"ab", b"a") && !equal(b"ab", b"ac"));
    }

    #[test]
    fn failures_leave_the_error_queue_empty() {
        let two = Bignum::new(&[2]).unwrap();
        let n = Bignum::new(&[0xff; 128]).unwrap();
        let rsa = Rsa::public(&n, &Bignum::new(&[3]).unwrap()).unwrap();
        let (ed25519, _) = ed25519_public(&[1; 32]);
        let failures: [&dyn Fn() -> bool; 7] = [
            &|| EcKey::private(Curve::P256, &[0; 32]).is_ok(),
            &|| EcKey::public(Curve::P256, &[4; 65]).is_ok(),
            &|| Rsa::public(&two, &two).is_ok(),
            &|| rsa.verify_pkcs1(Hash::Sha256, &[0; 32], &[7; 128]),
            &|| rsa.recover_pkcs1(&[7; 128], &mut [0; 128]).is_some(),
            &|| rsa.sign_pkcs1(Hash::Sha256, &[0; 32], &mut [0; 128]).is_ok(),
            &|| ed25519_verify(&ed25519, Ed25519Input::Pure(b""), &[0xff; 64]),
        ];
        for (case, succeeds) in failures.iter().enumerate() {
            assert!(!succeeds(), "case {case}");
            // SAFETY: the function reads the queue of this thread.
            assert_eq!(unsafe { aws::ERR_peek_error() }, 0, "case {case}");
        }
    }
}
