//! DSA. The nonces are deterministic (RFC 6979).

use crypto_bigint::{BoxedUint, NonZero, Odd};
use crypto_primes::hazmat::MillerRabin;
use crypto_primes::{Flavor, is_prime};
use dsa::signature::hazmat::PrehashVerifier;
use dsa::{Components, KeySize, Signature, SigningKey, VerifyingKey};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use jeton_secret::Secret;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::dh::Numbers;
use super::{failed, random};
use crate::backend::api::DsaGroup;
use crate::backend::shared::dh::{below, unpadded};
use crate::backend::shared::dsa::Library;
use crate::error::{Error, Result};

/// A public key, and its private key if this is known.
pub(super) struct Key {
    verifying: VerifyingKey,
    signing: Option<SigningKey>,
}

impl Library for Numbers {
    type Key = Key;

    fn is_prime(number: &[u8]) -> Result<bool> {
        let number = BoxedUint::from_be_slice_vartime(number);
        // First the tests that an attacker can predict: Miller-Rabin with base 2, and a Lucas test.
        if !is_prime(Flavor::Any, &number) {
            return Ok(false);
        }
        // FIPS 186-4, table C.1: the number of rounds with random bases if there is also a Lucas
        // test.
        let rounds = if number.bit_width_vartime() > 256 { 3 } else { 27 };
        let odd = Odd::new(number).into_option().ok_or(Error::DataInvalid)?;
        random::fill(&mut [0; 32])?;
        let test = MillerRabin::new(odd);
        Ok((0..rounds).all(|_| test.test_random_base(&mut UnwrapErr(SysRng)).is_probably_prime()))
    }

    fn group(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup> {
        // The crate deprecates a size that is too weak today. The caller may still choose it.
        #[allow(deprecated)]
        let size = match (prime_bits, subprime_bits) {
            (1024, _) => KeySize::DSA_1024_160,
            (2048, 224) => KeySize::DSA_2048_224,
            (2048, _) => KeySize::DSA_2048_256,
            _ => KeySize::DSA_3072_256,
        };
        let made = Components::try_generate_from_rng_with_key_size(&mut SysRng, size)
            .map_err(|error| failed("DSA parameter generation")(&error))?;
        let bytes = |number: &BoxedUint| unpadded(&number.to_be_bytes()).to_vec();
        Ok(DsaGroup { prime: bytes(made.p()), subprime: bytes(made.q()), base: bytes(made.g()) })
    }

    fn value(group: &DsaGroup) -> Result<Secret> {
        // FIPS 186-4, B.1.2. More than half of the candidates are below the subprime.
        let mut value = Secret::zeroed(group.subprime.len());
        while unpadded(&value).is_empty() || !below(&value, &group.subprime) {
            random::fill(&mut value)?;
        }
        Ok(Secret::from(unpadded(&value)))
    }

    fn key(group: &DsaGroup, public: &[u8], private: Option<&Secret>) -> Result<Key> {
        let verifying = verifying_key(group, public)?;
        let precision = verifying.components().q().bits_precision();
        let signing = |value: &Secret| {
            let x = BoxedUint::from_be_slice(value, precision).map_err(invalid)?;
            SigningKey::from_components(verifying.clone(), x).map_err(invalid)
        };
        let signing = private.map(signing).transpose()?;
        Ok(Key { verifying, signing })
    }

    fn sign(key: &Key, digest: &[u8], r: &mut [u8], s: &mut [u8]) -> Result<()> {
        let key = key.signing.as_ref().ok_or(Error::GeneralError)?;
        // RFC 6979, 3.2: the nonce uses the hash that computed the digest. Only the length of the
        // digest is known, and SHA-2 and SHA-3 have the same lengths. SHA-2 is used for both: the
        // nonce of a SHA-3 digest is equally secure.
        let made = match digest.len() {
            20 => key.sign_prehashed_rfc6979::<Sha1>(digest),
            28 => key.sign_prehashed_rfc6979::<Sha224>(digest),
            32 => key.sign_prehashed_rfc6979::<Sha256>(digest),
            48 => key.sign_prehashed_rfc6979::<Sha384>(digest),
            _ => key.sign_prehashed_rfc6979::<Sha512>(digest),
        };
        let made = made.map_err(|error| failed("DSA signature")(&error))?;
        write(made.r(), r);
        write(made.s(), s);
        Ok(())
    }

    fn verify(key: &Key, digest: &[u8], r: &[u8], s: &[u8]) -> Result<bool> {
        let precision = key.verifying.components().q().bits_precision();
        let [Ok(r), Ok(s)] = [r, s].map(|half| BoxedUint::from_be_slice(half, precision)) else {
            return Ok(false);
        };
        let signature = Signature::from_components(r, s);
        Ok(signature.is_some_and(|signature| key.verifying.verify_prehash(digest, &signature).is_ok()))
    }
}

/// Converts the numbers of a public key. The caller has checked them by the rules of
/// `backend/dsa.rs`.
fn verifying_key(group: &DsaGroup, public: &[u8]) -> Result<VerifyingKey> {
    let prime = BoxedUint::from_be_slice_vartime(&group.prime);
    let wide = |bytes: &[u8]| BoxedUint::from_be_slice(bytes, prime.bits_precision()).map_err(invalid);
    let (base, public) = (wide(&group.base)?, wide(public)?);
    let subprime = BoxedUint::from_be_slice_vartime(&group.subprime);
    // Existing keys may have other sizes than those of FIPS 186-4.
    let group = Components::from_components_unchecked(prime, subprime, base).map_err(invalid)?;
    VerifyingKey::from_components(group, public).map_err(invalid)
}

fn invalid<E>(_: E) -> Error {
    Error::DataInvalid
}

/// Writes a number that is below the subprime, with leading zeros up to the length of `out`.
fn write(number: &NonZero<BoxedUint>, out: &mut [u8]) {
    let bytes = Zeroizing::new(number.to_be_bytes());
    let bytes = unpadded(&bytes);
    out.fill(0);
    let start = out.len() - bytes.len();
    out[start..].copy_from_slice(bytes);
}
