//! Diffie-Hellman in a prime field, and the generation of its primes.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use crypto_primes::hazmat::MillerRabin;
use crypto_primes::{Flavor, is_prime, random_prime};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use zeroize::Zeroizing;

use super::random;
use crate::backend::dh::Integers;
use crate::backend::dsa::Primes;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// The integers of `crypto-bigint`.
pub(super) struct Numbers;

impl Integers for Numbers {
    fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret> {
        let odd = Odd::new(BoxedUint::from_be_slice_vartime(modulus)).into_option();
        let params = BoxedMontyParams::new_vartime(odd.ok_or(Error::DataInvalid)?);
        let base = BoxedUint::from_be_slice(base, params.bits_precision()).map_err(|_| Error::DataInvalid)?;
        // The time depends on the length of the exponent, but not on its bits.
        let exponent = Zeroizing::new(BoxedUint::from_be_slice_vartime(exponent));
        let power = Zeroizing::new(BoxedMontyForm::new(base, &params).pow(&exponent).retrieve());
        let bytes = Zeroizing::new(power.to_be_bytes());
        Ok(Secret::from(&bytes[bytes.len() - modulus.len()..]))
    }

    fn random(out: &mut [u8]) -> Result<()> {
        random::fill(out)
    }
}

impl Primes for Numbers {
    fn is_prime(number: &[u8]) -> Result<bool> {
        let number = BoxedUint::from_be_slice_vartime(number);
        // First the tests that an attacker can predict: Miller-Rabin with base 2, and a Lucas test.
        if !is_prime(Flavor::Any, &number) {
            return Ok(false);
        }
        // FIPS 186-4, table C.1: the number of rounds with random bases if there is also a Lucas
        // test.
        let rounds = if number.bits_vartime() > 256 { 3 } else { 27 };
        let odd = Odd::new(number).into_option().ok_or(Error::DataInvalid)?;
        random::fill(&mut [0; 32])?;
        let test = MillerRabin::new(odd);
        Ok((0..rounds).all(|_| test.test_random_base(&mut UnwrapErr(SysRng)).is_probably_prime()))
    }
}

pub(super) fn safe_prime(bits: usize) -> Result<Vec<u8>> {
    let bits = u32::try_from(bits).map_err(|_| Error::KeySizeRange)?;
    // The crate requires a generator that cannot fail. `fill` returns an error if the generator
    // fails now. If the generator fails only later, `random_prime` panics.
    random::fill(&mut [0; 32])?;
    let prime: BoxedUint = random_prime(&mut UnwrapErr(SysRng), Flavor::Safe, bits);
    Ok(prime.to_be_bytes_trimmed_vartime().into_vec())
}
