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

    /// A build with RustCrypto takes its safe primes from there.
    #[test]
    fn a_safe_prime_of_aws_lc_and_its_half_are_prime() {
        let mut number = safe_prime(256).expect("a prime");
        assert_eq!((number.len(), number[0] >> 7, number[31] & 3), (32, 1, 3));
        assert!(ffi::is_prime(&number).expect("an answer"));
        let mut carry = 0;
        for byte in &mut number {
            (*byte, carry) = (*byte >> 1 | carry << 7, *byte & 1);
        }
        assert!(ffi::is_prime(&number).expect("an answer"));
    }
}
