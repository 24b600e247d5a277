//! Diffie-Hellman in a prime field, and the generation of its primes.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use crypto_primes::{Flavor, random_prime};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use jeton_secret::Secret;
use zeroize::Zeroizing;

use super::random;
use crate::backend::shared::dh::Integers;
use crate::error::{Error, Result};

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

pub(super) fn safe_prime(bits: usize) -> Result<Vec<u8>> {
    let bits = u32::try_from(bits).map_err(|_| Error::KeySizeRange)?;
    // The crate requires a generator that cannot fail. `fill` returns an error if the generator
    // fails now. If the generator fails only later, `random_prime` panics.
    random::fill(&mut [0; 32])?;
    let prime: BoxedUint = random_prime(&mut UnwrapErr(SysRng), Flavor::Safe, bits);
    Ok(prime.to_be_bytes_trimmed_vartime().into_vec())
}
