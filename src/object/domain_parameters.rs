//! Domain parameters (PKCS#11 3.2, "Domain parameter objects").

use super::Attributes;
use super::key_type::KeyTypeRow;
use super::value::{Value, bit_size};
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};

/// Generates domain parameters of this key type, and sets them. `bits` is the size of the prime.
/// This is slow, so the caller must not hold a lock.
pub(crate) fn generate(
    mut attributes: Attributes,
    key_type: KeyType,
    bits: usize,
    provider: &Provider,
) -> Result<Attributes> {
    (KeyTypeRow::of(key_type).generate_parameters)(&mut attributes, bits, provider)?;
    attributes.put(A::LOCAL, Value::Flag(true));
    Ok(attributes)
}

/// Checks created domain parameters, and sets the sizes of their primes.
pub(crate) fn check(attributes: &mut Attributes, provider: &Provider) -> Result<()> {
    (KeyTypeRow::of_object(attributes)?.check_parameters)(attributes, provider)?;
    let bits = attributes.bytes(A::PRIME).map(bit_size).ok_or(Error::TemplateIncomplete)?;
    attributes.put(A::PRIME_BITS, Value::Number(bits));
    attributes.put(A::LOCAL, Value::Flag(false));
    Ok(())
}
