//! Diffie-Hellman in a prime field (PKCS #3, SP 800-56A 5.7.1.1): the rules, over the integers of a library.

use std::marker::PhantomData;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use super::{PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Sizes of a prime that is used, in bits. Old peers have short ones; what is longer costs too much time.
const USED: std::ops::RangeInclusive<usize> = 512..=8192;
/// The smallest prime with which keys are made, in bits.
const GENERATED: usize = 1024;
/// The shortest private value that is made, in bits: twice the strength of the smallest prime (SP 800-57, 5.6.1.1).
const SHORTEST: usize = 160;

/// The integers of a library: unsigned and big-endian.
pub(super) trait Integers: Send + Sync + 'static {
    /// `base` to the power of `exponent`, as long as the modulus, in a time that the lengths alone determine. The
    /// modulus is odd, the base below it.
    fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret>;
    /// Random bytes.
    fn random(out: &mut [u8]) -> Result<()>;
}

/// A pair in the group of that prime and base, with a private value of so many bits; as many as fit without.
/// `DomainParamsInvalid` where they make no group, `KeySizeRange` where prime or private value are too short or long.
pub(super) fn generate<I: Integers>(
    prime: &[u8],
    base: &[u8],
    bits: Option<usize>,
) -> Result<(PublicParts, PrivateParts)> {
    let group = Group::new(prime, base)?;
    let longest = size(prime) - 1;
    let bits = bits.unwrap_or(longest);
    if size(prime) < GENERATED || !(SHORTEST..=longest).contains(&bits) {
        return Err(Error::KeySizeRange);
    }
    // PKCS #3, 7.1: of l bits, the highest of which is set.
    let mut value = Secret::zeroed(bits.div_ceil(8));
    I::random(&mut value)?;
    let top = (bits - 1) % 8;
    value[0] = value[0] & ((1 << top) - 1) | 1 << top;
    let key = Private::<I> { group, value: value.duplicate(), integers: PhantomData };
    Ok((key.public()?, PrivateParts::Dh { prime: prime.to_vec(), base: base.to_vec(), value }))
}

pub(super) fn private<I: Integers>(prime: &[u8], base: &[u8], value: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let group = Group::new(prime, base)?;
    if value.is_empty() || !below(value, &group.largest) {
        return Err(Error::DataInvalid);
    }
    Ok(Arc::new(Private::<I> { group, value: value.duplicate(), integers: PhantomData }))
}

pub(super) fn public(prime: &[u8], base: &[u8], value: &[u8]) -> Result<Arc<dyn PublicKey>> {
    Group::new(prime, base)?.element(value)?;
    Ok(Arc::new(Public))
}

/// Sees that prime and base may be those of a group, as a domain parameter object has them.
pub(super) fn check_group(prime: &[u8], base: &[u8]) -> Result<()> {
    Group::new(prime, base).map(drop)
}

/// A prime and a base. Whether the prime is one is not tried: that costs more than the agreement, and who gives away
/// a wrong one harms the keys made with it alone.
struct Group {
    prime: Vec<u8>,
    base: Vec<u8>,
    /// The prime less 1.
    largest: Vec<u8>,
}

impl Group {
    fn new(prime: &[u8], base: &[u8]) -> Result<Self> {
        if !USED.contains(&size(prime)) {
            return Err(Error::KeySizeRange);
        }
        let mut largest = prime.to_vec();
        match largest.last_mut() {
            Some(last) if *last & 1 == 1 => *last -= 1,
            _ => return Err(Error::DomainParamsInvalid),
        }
        let group = Self { prime: prime.to_vec(), base: base.to_vec(), largest };
        group.element(base).map_err(|_| Error::DomainParamsInvalid)?;
        Ok(group)
    }

    /// A number from 2 to the prime less 2: 0, 1 and -1 have orders that tell or force the secret.
    fn element<'a>(&self, value: &'a [u8]) -> Result<&'a [u8]> {
        let value = unpadded(value);
        let fits = !matches!(value, [] | [1]) && below(value, &self.largest);
        if fits { Ok(value) } else { Err(Error::DataInvalid) }
    }
}

struct Private<I> {
    group: Group,
    value: Secret,
    integers: PhantomData<I>,
}

impl<I: Integers> PrivateKey for Private<I> {
    fn public(&self) -> Result<PublicParts> {
        let Group { prime, base, .. } = &self.group;
        let value = I::power(base, &self.value, prime)?;
        let value = unpadded(&value).to_vec();
        Ok(PublicParts::Dh { prime: prime.clone(), base: base.clone(), value })
    }

    fn signer(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Err(Error::KeyTypeInconsistent)
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let group = &self.group;
        let secret = I::power(group.element(peer)?, &self.value, &group.prime)?;
        // SP 800-56A, 5.7.1.1, step 2.
        let mut one = vec![0; secret.len()];
        let zero = secret.ct_eq(&one);
        if let Some(last) = one.last_mut() {
            *last = 1;
        }
        let small = zero | secret.ct_eq(&one) | secret.ct_eq(&group.largest);
        if bool::from(small) { Err(Error::DataInvalid) } else { Ok(secret) }
    }
}

/// A public key, which is good for nothing but being a peer's.
struct Public;

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, _scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Err(Error::KeyTypeInconsistent)
    }
}

/// The size of a number without leading zeros in bits.
fn size(number: &[u8]) -> usize {
    number.len() * 8 - number.first().map_or(0, |first| first.leading_zeros() as usize)
}

/// Whether one number is below another, both without leading zeros.
fn below(number: &[u8], limit: &[u8]) -> bool {
    (number.len(), number) < (limit.len(), limit)
}

fn unpadded(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_length_first() {
        assert!(below(&[0xff], &[1, 0]) && below(&[1, 0], &[1, 1]));
        assert!(!below(&[1, 0], &[0xff]) && !below(&[1, 1], &[1, 1]));
        assert_eq!([size(&[]), size(&[1]), size(&[0x80, 0])], [0, 1, 16]);
    }
}
