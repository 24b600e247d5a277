//! Domain parameters (PKCS#11 3.2, "Diffie-Hellman domain parameter objects", "DSA domain parameter
//! objects").

use super::value::Value;
use super::{Attributes, key};
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::secret::Secret;

/// Generates domain parameters of this key type, and sets them. `bits` is the size of the prime.
/// This is slow, so the caller must not hold a lock.
pub(crate) fn generate(
    mut attributes: Attributes,
    key_type: KeyType,
    bits: usize,
    provider: &Provider,
) -> Result<Attributes> {
    if key_type == KeyType::DSA {
        let subprime_bits = subprime_bits(&attributes, bits)?;
        let group = provider.keys.dsa_group(bits, subprime_bits)?;
        let mut put = |id, number| attributes.put(id, Value::Bytes(Secret::new(number)));
        put(A::PRIME, group.prime);
        put(A::SUBPRIME, group.subprime);
        put(A::BASE, group.base);
        attributes.put(A::SUBPRIME_BITS, Value::Number(subprime_bits as u64));
    } else {
        let prime = provider.keys.safe_prime(bits)?;
        attributes.put(A::PRIME, Value::Bytes(Secret::new(prime)));
        // 4 is a square modulo every safe prime, so it generates the large subgroup of prime order.
        attributes.put(A::BASE, Value::Bytes([4][..].into()));
    }
    attributes.put(A::LOCAL, Value::Flag(true));
    Ok(attributes)
}

/// Returns the size of the subprime in the template, or else the largest that FIPS 186-4, 4.2 has
/// for the prime.
fn subprime_bits(attributes: &Attributes, bits: usize) -> Result<usize> {
    match attributes.number(A::SUBPRIME_BITS) {
        Some(given) => usize::try_from(given).map_err(|_| Error::KeySizeRange),
        None if bits < 2048 => Ok(160),
        None => Ok(256),
    }
}

/// Checks created domain parameters, and sets the sizes of their primes.
pub(crate) fn check(attributes: &mut Attributes, provider: &Provider) -> Result<()> {
    if attributes.number(A::KEY_TYPE) == Some(KeyType::DSA.0) {
        let group = key::dsa_group(attributes)?;
        provider.keys.check_dsa_group(&group)?;
        attributes.put(A::SUBPRIME_BITS, Value::Number(key::bit_size(&group.subprime)));
    } else {
        let part = |id| attributes.bytes(id).ok_or(Error::TemplateIncomplete);
        provider.keys.check_group(part(A::PRIME)?, part(A::BASE)?)?;
    }
    let bits = attributes.bytes(A::PRIME).map(key::bit_size).ok_or(Error::TemplateIncomplete)?;
    attributes.put(A::PRIME_BITS, Value::Number(bits));
    attributes.put(A::LOCAL, Value::Flag(false));
    Ok(())
}
