//! Diffie-Hellman in a prime field, and the generation of its primes.

use super::ffi;
use crate::backend::dh::Integers;
use crate::error::Result;
use crate::secret::Secret;

/// AWS-LC's arithmetic on big integers.
pub(super) struct Numbers;

impl Integers for Numbers {
    fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
        ffi::power(base, exponent, modulus)
    }

    fn random(out: &mut [u8]) -> Result<()> {
        ffi::random(out)
    }
}

pub(super) fn safe_prime(bits: usize) -> Result<Vec<u8>> {
    ffi::safe_prime(bits)
}
