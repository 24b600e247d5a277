//! Diffie-Hellman in a prime field (PKCS #3, SP 800-56A 5.7.1.1). This file has the checks. A
//! library computes with the integers.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use jeton_secret::Secret;
use subtle::ConstantTimeEq;

use crate::backend::api::{PrivateKey, PrivateParts, PublicKey, PublicParts};
use crate::error::{Error, Result, require};

/// Sizes in bits of the primes that keys may use. Old peers use short primes. Longer primes cost
/// too much time.
const USED: std::ops::RangeInclusive<usize> = 512..=8192;
/// The smallest prime in bits for which the token generates keys.
const GENERATED: usize = 1024;
/// The shortest private value that the token generates, in bits: twice the security strength of a
/// prime of 1024 bits (SP 800-57, 5.6.1.1).
const SHORTEST: usize = 160;

/// The big-endian unsigned integers of a library.
pub(in crate::backend) trait Integers: Send + Sync + 'static {
    /// Returns `base` to the power of `exponent` modulo `modulus`, with the length of the modulus.
    /// The time depends only on the lengths. The caller promises that the modulus is odd and the
    /// base is below it.
    fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Secret>;
    /// Fills `out` with random bytes.
    fn random(out: &mut [u8]) -> Result<()>;
}

/// Generates a key pair. Without `bits` the private value has the largest possible size. Fails with
/// `DomainParamsInvalid` if the prime is even or the base is out of range. Fails with
/// `KeySizeRange` if the prime or the private value is too short or too long.
pub(in crate::backend) fn generate<I: Integers>(
    prime: &[u8],
    base: &[u8],
    bits: Option<usize>,
) -> Result<(PublicParts, PrivateParts)> {
    let group = Group::new(prime, base)?;
    let longest = size(prime) - 1;
    let bits = bits.unwrap_or(longest);
    require(size(prime) >= GENERATED && (SHORTEST..=longest).contains(&bits), Error::KeySizeRange)?;
    // PKCS #3, 7.1: the private value has exactly l bits, so its highest bit is set.
    let mut value = Secret::zeroed(bits.div_ceil(8));
    I::random(&mut value)?;
    let top = (bits - 1) % 8;
    value[0] = value[0] & ((1 << top) - 1) | 1 << top;
    let key = Private::<I>::new(group, &value);
    Ok((key.public()?, PrivateParts::Dh { prime: prime.to_vec(), base: base.to_vec(), value }))
}

pub(in crate::backend) fn private<I: Integers>(
    prime: &[u8],
    base: &[u8],
    value: &Secret,
) -> Result<Arc<dyn PrivateKey>> {
    let group = Group::new(prime, base)?;
    require(!value.is_empty() && below(value, &group.largest), Error::DataInvalid)?;
    Ok(Arc::new(Private::<I>::new(group, value)))
}

pub(in crate::backend) fn public(prime: &[u8], base: &[u8], value: &[u8]) -> Result<Arc<dyn PublicKey>> {
    Group::new(prime, base)?.element(value)?;
    Ok(Arc::new(PeerKey))
}

/// Checks that prime and base can form a Diffie-Hellman group. Fails with `KeySizeRange` if the
/// prime does not have 512 to 8192 bits. Fails with `DomainParamsInvalid` if the prime is even or
/// the base is not from 2 to the prime minus 2.
pub(crate) fn check_group(prime: &[u8], base: &[u8]) -> Result<()> {
    Group::new(prime, base).map(drop)
}

/// A prime and a base. Only [`PrivateKey::is_group_safe`] tests the prime.
struct Group {
    prime: Vec<u8>,
    base: Vec<u8>,
    /// The prime minus 1.
    largest: Vec<u8>,
}

impl Group {
    fn new(prime: &[u8], base: &[u8]) -> Result<Self> {
        require(USED.contains(&size(prime)), Error::KeySizeRange)?;
        let mut largest = prime.to_vec();
        match largest.last_mut() {
            Some(last) if *last & 1 == 1 => *last -= 1,
            _ => return Err(Error::DomainParamsInvalid),
        }
        let group = Self { prime: prime.to_vec(), base: base.to_vec(), largest };
        group.element(base).map_err(|_| Error::DomainParamsInvalid)?;
        Ok(group)
    }

    /// Checks that a number is from 2 to the prime minus 2, and removes leading zeros. With 0, 1
    /// and -1 the secret is known in advance.
    fn element<'a>(&self, value: &'a [u8]) -> Result<&'a [u8]> {
        let value = unpadded(value);
        let fits = !matches!(value, [] | [1]) && below(value, &self.largest);
        if fits { Ok(value) } else { Err(Error::DataInvalid) }
    }
}

struct Private<I> {
    group: Group,
    value: Secret,
    /// Whether the prime is safe, after the first test.
    safe: OnceLock<bool>,
    integers: PhantomData<I>,
}

impl<I: Integers> Private<I> {
    fn new(group: Group, value: &Secret) -> Self {
        Self { group, value: value.duplicate(), safe: OnceLock::new(), integers: PhantomData }
    }
}

/// Rounds of Miller-Rabin. The owner chooses the group, and no attacker: a group of his own would
/// show his own keys.
const ROUNDS: usize = 4;

/// Tests whether p and q = (p - 1) / 2 are prime. If q is, then p is prime if 2^(p - 1) is 1
/// (Pocklington).
fn is_safe<I: Integers>(prime: &[u8], largest: &[u8]) -> Result<bool> {
    let order = halved(largest);
    if order.last().is_none_or(|last| last & 1 == 0) {
        return Ok(false);
    }
    for _ in 0..ROUNDS {
        // The base is below the number, because its first byte is 0.
        let mut base = vec![0; order.len()];
        I::random(&mut base[1..])?;
        if !passes::<I>(&order, unpadded(&base))? {
            return Ok(false);
        }
    }
    Ok(unpadded(&I::power(&[2], largest, prime)?) == [1])
}

/// One round of Miller-Rabin for an odd number.
fn passes<I: Integers>(number: &[u8], base: &[u8]) -> Result<bool> {
    let mut largest = number.to_vec();
    if let Some(last) = largest.last_mut() {
        *last -= 1;
    }
    let (mut odd, mut twos) = (halved(&largest), 1);
    while odd.last().is_some_and(|last| last & 1 == 0) {
        (odd, twos) = (halved(&odd), twos + 1);
    }
    let mut power = I::power(base, &odd, number)?;
    if unpadded(&power) == [1] {
        return Ok(true);
    }
    for _ in 0..twos {
        if unpadded(&power) == unpadded(&largest) {
            return Ok(true);
        }
        power = I::power(unpadded(&power), &[2], number)?;
    }
    Ok(false)
}

/// Returns half of an even number, without leading zeros.
fn halved(number: &[u8]) -> Vec<u8> {
    let carried = [0].into_iter().chain(number.iter().copied());
    let half: Vec<_> = number.iter().zip(carried).map(|(byte, before)| byte >> 1 | before << 7).collect();
    unpadded(&half).to_vec()
}

impl<I: Integers> PrivateKey for Private<I> {
    fn public(&self) -> Result<PublicParts> {
        let Group { prime, base, .. } = &self.group;
        let value = I::power(base, &self.value, prime)?;
        let value = unpadded(&value).to_vec();
        Ok(PublicParts::Dh { prime: prime.clone(), base: base.clone(), value })
    }

    fn is_group_safe(&self) -> Result<bool> {
        if let Some(safe) = self.safe.get() {
            return Ok(*safe);
        }
        let safe = is_safe::<I>(&self.group.prime, &self.group.largest)?;
        Ok(*self.safe.get_or_init(|| safe))
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let group = &self.group;
        let secret = I::power(group.element(peer)?, &self.value, &group.prime)?;
        // SP 800-56A, 5.7.1.1, step 2: the secret must not be 0, 1 or the prime minus 1.
        let mut one = vec![0; secret.len()];
        let zero = secret.ct_eq(&one);
        if let Some(last) = one.last_mut() {
            *last = 1;
        }
        let small = zero | secret.ct_eq(&one) | secret.ct_eq(&group.largest);
        if bool::from(small) { Err(Error::DataInvalid) } else { Ok(secret) }
    }
}

/// A public key of a key agreement. It has no operation: a private key takes the bytes of the
/// peer's public key.
pub(in crate::backend) struct PeerKey;

impl PublicKey for PeerKey {}

/// Returns the size in bits of a number without leading zeros.
pub(in crate::backend) fn size(number: &[u8]) -> usize {
    number.len() * 8 - number.first().map_or(0, |first| first.leading_zeros() as usize)
}

/// Checks whether a number is below a limit. Neither has leading zeros.
pub(in crate::backend) fn below(number: &[u8], limit: &[u8]) -> bool {
    (number.len(), number) < (limit.len(), limit)
}

/// Returns a number without leading zeros.
pub(in crate::backend) fn unpadded(number: &[u8]) -> &[u8] {
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
