//! Diffie-Hellman in a prime field, and the generation of its primes.

use jeton_secret::Secret;

use super::ffi;
use crate::backend::shared::dh::Integers;
use crate::error::Result;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::shared::dh;

    /// A build with RustCrypto takes its safe primes from there.
    #[test]
    fn a_safe_prime_of_aws_lc_and_its_half_are_prime() {
        let prime = safe_prime(512).expect("a prime");
        let key = dh::private::<Numbers>(&prime, &[2], &Secret::from(&[7][..])).expect("a key");
        assert_eq!((prime.len(), prime[0] >> 7, key.is_group_safe()), (64, 1, Ok(true)));
    }
}
