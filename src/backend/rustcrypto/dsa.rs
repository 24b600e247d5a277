//! DSA with signatures as r || s, and domain parameters. The nonces are deterministic (RFC 6979).

use std::sync::Arc;

use crypto_bigint::{BoxedUint, NonZero, Odd};
use crypto_primes::hazmat::MillerRabin;
use crypto_primes::{Flavor, is_prime};
use dsa::signature::hazmat::PrehashVerifier;
use dsa::{Components, KeySize, Signature, SigningKey, VerifyingKey};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::dh::Numbers;
use super::{failed, output, random};
use crate::backend::dh::{below, unpadded};
use crate::backend::dsa as rules;
use crate::backend::{DsaGroup, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

impl rules::Primes for Numbers {
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

pub(super) fn group(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup> {
    rules::check_sizes(prime_bits, subprime_bits)?;
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

pub(super) fn check_group(group: &DsaGroup) -> Result<()> {
    rules::check_group::<Numbers>(group)
}

pub(super) fn generate(group: &DsaGroup) -> Result<(PublicParts, PrivateParts)> {
    check_group(group)?;
    // FIPS 186-4, B.1.2. More than half of the candidates are below the subprime.
    let mut value = Secret::zeroed(group.subprime.len());
    while unpadded(&value).is_empty() || !below(&value, &group.subprime) {
        random::fill(&mut value)?;
    }
    rules::pair::<Numbers>(group, Secret::from(unpadded(&value)))
}

pub(super) fn private(group: &DsaGroup, value: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let public = rules::public_value::<Numbers>(group, value)?;
    let verifying = verifying_key(group, &public)?;
    let x = BoxedUint::from_be_slice(value, verifying.components().q().bits_precision());
    let signing = SigningKey::from_components(verifying, x.map_err(invalid)?).map_err(invalid)?;
    Ok(Arc::new(Private { group: group.clone(), public, key: signing }))
}

pub(super) fn public(group: &DsaGroup, value: &[u8]) -> Result<Arc<dyn PublicKey>> {
    rules::check_public::<Numbers>(group, value)?;
    Ok(Arc::new(Public { half: group.subprime.len(), key: verifying_key(group, value)? }))
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

struct Private {
    group: DsaGroup,
    public: Vec<u8>,
    key: SigningKey,
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Dsa { group: self.group.clone(), value: self.public.clone() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Dsa => Ok(Box::new(DsaSigner(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct DsaSigner(Arc<Private>);

impl Signer for DsaSigner {
    fn signature_len(&self) -> usize {
        2 * self.0.group.subprime.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        rules::check_digest(input)?;
        let half = self.0.group.subprime.len();
        let (r, s) = output(out, 2 * half)?.split_at_mut(half);
        let key = &self.0.key;
        // RFC 6979, 3.2: the nonce uses the hash that computed the digest. Only the length of the
        // digest is known, and SHA-2 and SHA-3 have the same lengths. SHA-2 is used for both: the
        // nonce of a SHA-3 digest is equally secure.
        let made = match input.len() {
            20 => key.sign_prehashed_rfc6979::<Sha1>(input),
            28 => key.sign_prehashed_rfc6979::<Sha224>(input),
            32 => key.sign_prehashed_rfc6979::<Sha256>(input),
            48 => key.sign_prehashed_rfc6979::<Sha384>(input),
            _ => key.sign_prehashed_rfc6979::<Sha512>(input),
        };
        let made = made.map_err(|error| failed("DSA signature")(&error))?;
        write(made.r(), r);
        write(made.s(), s);
        Ok(())
    }
}

/// Writes a number that is below the subprime, with leading zeros up to the length of `out`.
fn write(number: &NonZero<BoxedUint>, out: &mut [u8]) {
    let bytes = Zeroizing::new(number.to_be_bytes());
    let bytes = unpadded(&bytes);
    out.fill(0);
    let start = out.len() - bytes.len();
    out[start..].copy_from_slice(bytes);
}

struct Public {
    half: usize,
    key: VerifyingKey,
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Dsa => Ok(Box::new(DsaVerifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct DsaVerifier(Arc<Public>);

impl Verifier for DsaVerifier {
    fn signature_len(&self) -> usize {
        2 * self.0.half
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        rules::check_digest(input)?;
        if signature.len() != self.signature_len() {
            return Err(Error::SignatureLenRange);
        }
        let precision = self.0.key.components().q().bits_precision();
        let (r, s) = signature.split_at(self.0.half);
        let [r, s] = [r, s].map(|half| BoxedUint::from_be_slice(half, precision));
        let number = |half: std::result::Result<BoxedUint, _>| half.map_err(|_| Error::SignatureInvalid);
        let signature = Signature::from_components(number(r)?, number(s)?).ok_or(Error::SignatureInvalid)?;
        self.0.key.verify_prehash(input, &signature).map_err(|_| Error::SignatureInvalid)
    }
}
