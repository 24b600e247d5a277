//! Powers modulo an odd number, and safe primes. AWS-LC's own Diffie-Hellman is not bound by `aws-lc-sys`.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use super::{Bignum, aws, check, owned, to_padded};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// `base` to the power of `exponent`, as long as the modulus, which is odd; the base is below it.
pub(crate) fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
    let mut out = Secret::zeroed(modulus.len());
    let (base, exponent, modulus) = (Bignum::new(base)?, Bignum::new(exponent)?, Bignum::new(modulus)?);
    let (power, scratch) = (Bignum::new(&[])?, Scratch::new()?);
    // SAFETY: the numbers and the scratch memory are alive, `power` is ours alone; null asks for a Montgomery context of
    // the call's own.
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
    // SAFETY: the number is alive and nobody changes it.
    unsafe { to_padded(power.as_ptr(), &mut out) }?;
    Ok(out)
}

/// A prime of so many bits, the half of which less one is prime too.
pub(crate) fn safe_prime(bits: usize) -> Result<Vec<u8>> {
    let bits = c_int::try_from(bits).map_err(|_| Error::KeySizeRange)?;
    let prime = Bignum::new(&[])?;
    // SAFETY: the number is ours alone; null stands for no residue to keep to and no callback.
    check("BN_generate_prime_ex", unsafe {
        aws::BN_generate_prime_ex(prime.0.as_ptr(), bits, 1, ptr::null(), ptr::null(), ptr::null_mut())
    })?;
    Ok(prime.to_bytes())
}

/// An owned `BN_CTX`.
struct Scratch(NonNull<aws::BN_CTX>);

impl Scratch {
    fn new() -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        owned("BN_CTX_new", unsafe { aws::BN_CTX_new() }).map(Self)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: we own the memory and nobody uses it after this; AWS-LC wipes the numbers that it frees.
        unsafe { aws::BN_CTX_free(self.0.as_ptr()) }
    }
}
