//! DSA (FIPS 186-4), with signatures as r || s: the rules for domain parameters, keys and digests.
//! A library supplies the integers and the signatures.
//!
//! The numbers of a key come from its owner, or from an attacker who can import keys. So every key
//! passes [`check_numbers`] before a library gets it. The cost of this check is bounded by the size
//! of the prime.

use std::sync::Arc;

use jeton_secret::Secret;

use crate::backend::api::{
    DsaGroup, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier, output,
};
use crate::backend::shared::dh::{Integers, below, size, unpadded};
use crate::error::{Error, Result, require};

/// Sizes in bits of the primes that keys may use.
const PRIMES: std::ops::RangeInclusive<usize> = 1024..=3072;
/// Sizes in bits of the subprimes that keys may use (FIPS 186-4, 4.2). AWS-LC has the same rule.
const SUBPRIMES: [usize; 3] = [160, 224, 256];
/// The sizes of prime and subprime for which the token generates domain parameters (FIPS 186-4,
/// 4.2).
const GENERATED: [(usize, usize); 4] = [(1024, 160), (2048, 224), (2048, 256), (3072, 256)];
/// The lengths of the digests of `CKM_DSA` (PKCS#11 3.2, "DSA: Key And Data Length").
const DIGESTS: [usize; 5] = [20, 28, 32, 48, 64];

pub(in crate::backend) trait Library: Integers {
    /// A parsed public or private key.
    type Key: Send + Sync;
    /// Tests an odd number of at most 3072 bits. A composite number passes with a negligible
    /// probability, even if an attacker chose it.
    fn is_prime(number: &[u8]) -> Result<bool>;
    /// Generates domain parameters of sizes that FIPS 186-4 has.
    fn group(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup>;
    /// Generates a private value.
    fn value(group: &DsaGroup) -> Result<Secret>;
    /// Parses a key whose numbers were checked.
    fn key(group: &DsaGroup, public: &[u8], private: Option<&Secret>) -> Result<Self::Key>;
    fn sign(key: &Self::Key, digest: &[u8], r: &mut [u8], s: &mut [u8]) -> Result<()>;
    fn verify(key: &Self::Key, digest: &[u8], r: &[u8], s: &[u8]) -> Result<bool>;
}

/// Generates domain parameters as [`dsa_group`](crate::backend::api::Keys::dsa_group) describes.
pub(in crate::backend) fn group<L: Library>(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup> {
    check_sizes(prime_bits, subprime_bits)?;
    L::group(prime_bits, subprime_bits)
}

pub(in crate::backend) fn generate<L: Library>(group: &DsaGroup) -> Result<(PublicParts, PrivateParts)> {
    check_group::<L>(group)?;
    let value = L::value(group)?;
    let public = PublicParts::Dsa { group: group.clone(), value: public_value::<L>(group, &value)? };
    Ok((public, PrivateParts::Dsa { group: group.clone(), value }))
}

pub(in crate::backend) fn private<L: Library>(
    group: &DsaGroup,
    value: &Secret,
) -> Result<Arc<dyn PrivateKey>> {
    let public = public_value::<L>(group, value)?;
    let key = L::key(group, &public, Some(value))?;
    Ok(Arc::new(Key::<L> { group: group.clone(), public, key }))
}

pub(in crate::backend) fn public<L: Library>(group: &DsaGroup, value: &[u8]) -> Result<Arc<dyn PublicKey>> {
    check_public::<L>(group, value)?;
    let key = L::key(group, value, None)?;
    Ok(Arc::new(Key::<L> { group: group.clone(), public: value.to_vec(), key }))
}

/// Fails unless FIPS 186-4 has this pair of sizes.
fn check_sizes(prime_bits: usize, subprime_bits: usize) -> Result<()> {
    if GENERATED.contains(&(prime_bits, subprime_bits)) { Ok(()) } else { Err(Error::KeySizeRange) }
}

/// Fails unless `CKM_DSA` signs digests of this length.
fn check_digest(digest: &[u8]) -> Result<()> {
    if DIGESTS.contains(&digest.len()) { Ok(()) } else { Err(Error::DataLenRange) }
}

/// Checks domain parameters as [`check_dsa_group`](crate::backend::api::Keys::check_dsa_group)
/// describes.
pub(in crate::backend) fn check_group<L: Library>(group: &DsaGroup) -> Result<()> {
    check_numbers::<L>(group)?;
    // Test the subprime first, because it is shorter. If both are prime, the subprime is the order
    // of the base, and so it divides the prime minus 1.
    let good = L::is_prime(&group.subprime)? && L::is_prime(&group.prime)?;
    if good { Ok(()) } else { Err(Error::DomainParamsInvalid) }
}

/// Checks the public value. It must be from 2 to the prime minus 2, and its order must divide the
/// subprime.
fn check_public<I: Integers>(group: &DsaGroup, value: &[u8]) -> Result<()> {
    check_numbers::<I>(group)?;
    if is_element::<I>(group, value)? { Ok(()) } else { Err(Error::DataInvalid) }
}

/// Checks the private value, which must be from 1 to the subprime minus 1, and returns the public
/// value.
fn public_value<I: Integers>(group: &DsaGroup, value: &Secret) -> Result<Vec<u8>> {
    check_numbers::<I>(group)?;
    let value = unpadded(value);
    require(!value.is_empty() && below(value, &group.subprime), Error::DataInvalid)?;
    let public = I::power(&group.base, value, &group.prime)?;
    Ok(unpadded(&public).to_vec())
}

/// Checks everything about domain parameters except whether the numbers are prime. A number that is
/// not prime harms only the keys that use it.
fn check_numbers<I: Integers>(group: &DsaGroup) -> Result<()> {
    let DsaGroup { prime, subprime, base } = group;
    require(PRIMES.contains(&size(prime)) && SUBPRIMES.contains(&size(subprime)), Error::KeySizeRange)?;
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last & 1 == 1);
    let good = is_odd(prime) && is_odd(subprime) && is_element::<I>(group, base)?;
    if good { Ok(()) } else { Err(Error::DomainParamsInvalid) }
}

/// Returns whether the order of a number divides the subprime. Returns false for 0, 1 and -1. The
/// prime must be odd.
fn is_element<I: Integers>(group: &DsaGroup, number: &[u8]) -> Result<bool> {
    let number = unpadded(number);
    let mut largest = group.prime.clone();
    if let Some(last) = largest.last_mut() {
        *last &= !1;
    }
    if matches!(number, [] | [1]) || !below(number, &largest) {
        return Ok(false);
    }
    Ok(unpadded(&I::power(number, &group.subprime, &group.prime)?) == [1])
}

/// A public or private key.
struct Key<L: Library> {
    group: DsaGroup,
    public: Vec<u8>,
    key: L::Key,
}

impl<L: Library> PrivateKey for Key<L> {
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

impl<L: Library> PublicKey for Key<L> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Dsa => Ok(Box::new(DsaVerifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct DsaSigner<L: Library>(Arc<Key<L>>);

impl<L: Library> Signer for DsaSigner<L> {
    fn signature_len(&self) -> usize {
        2 * self.0.group.subprime.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        check_digest(input)?;
        let half = self.0.group.subprime.len();
        let (r, s) = output(out, 2 * half)?.split_at_mut(half);
        L::sign(&self.0.key, input, r, s)
    }
}

struct DsaVerifier<L: Library>(Arc<Key<L>>);

impl<L: Library> Verifier for DsaVerifier<L> {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        check_digest(input)?;
        require(signature.len() == 2 * self.0.group.subprime.len(), Error::SignatureLenRange)?;
        let (r, s) = signature.split_at(self.0.group.subprime.len());
        if L::verify(&self.0.key, input, r, s)? { Ok(()) } else { Err(Error::SignatureInvalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sizes_of_the_standard_are_generated() {
        assert_eq!(check_sizes(2048, 224), Ok(()));
        for (prime, subprime) in [(1024, 256), (2048, 160), (1536, 160), (3072, 224), (0, 0)] {
            assert_eq!(check_sizes(prime, subprime), Err(Error::KeySizeRange));
        }
    }
}
