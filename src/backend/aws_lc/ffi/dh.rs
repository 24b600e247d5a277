//! Powers modulo an odd number, and safe primes. AWS-LC's `DH_*` functions are not
//! used, because `backend/dh.rs` has the rules of Diffie-Hellman for both libraries.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use jeton_secret::Secret;

use super::{Bignum, aws, check, owned, to_padded};
use crate::error::{Error, Result};

/// Returns `base` to the power of `exponent`. The result is as long as the modulus. The modulus
/// must be odd, and the base must be smaller than the modulus.
pub(crate) fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
    let mut out = Secret::zeroed(modulus.len());
    let (base, exponent, modulus) = (Bignum::new(base)?, Bignum::new(exponent)?, Bignum::new(modulus)?);
    let (power, scratch) = (Bignum::new(&[])?, Scratch::new()?);
    // SAFETY: the numbers and the scratch memory are alive, and only this call uses `power`. With
    // null the function creates its own Montgomery context.
    check("BN_mod_exp_mont_consttime", unsafe {
        aws::BN_mod_exp_mont_consttime(
            power.0.as_ptr(),
            base.as_ptr(),
            exponent.as_ptr(),
            modulus.as_ptr(),
            scratch.0.as_ptr(),
            ptr::null(),
        )
    })?;
    // SAFETY: the number is alive, and no code changes it.
    unsafe { to_padded(power.as_ptr(), &mut out) }?;
    Ok(out)
}

/// Generates a safe prime p of this size in bits: (p - 1) / 2 is prime too.
pub(crate) fn safe_prime(bits: usize) -> Result<Vec<u8>> {
    let bits = c_int::try_from(bits).map_err(|_| Error::KeySizeRange)?;
    let prime = Bignum::new(&[])?;
    // SAFETY: only this call uses the number. Null means no condition on the residue and no
    // callback.
    check("BN_generate_prime_ex", unsafe {
        aws::BN_generate_prime_ex(prime.0.as_ptr(), bits, 1, ptr::null(), ptr::null(), ptr::null_mut())
    })?;
    Ok(prime.to_bytes())
}

struct Scratch(NonNull<aws::BN_CTX>);

impl Scratch {
    fn new() -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        owned("BN_CTX_new", unsafe { aws::BN_CTX_new() }).map(Self)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: we own the memory and no code uses it after this. AWS-LC wipes the numbers that
        // it frees.
        unsafe { aws::BN_CTX_free(self.0.as_ptr()) }
    }
}
