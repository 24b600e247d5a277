//! Domain parameters (PKCS#11 3.2, "Diffie-Hellman domain parameter objects").

use super::value::Value;
use super::{Attributes, key};
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::AttributeType as A;
use crate::secret::Secret;

/// Sets the generated prime and base.
pub(crate) fn put(mut attributes: Attributes, prime: Vec<u8>, base: &[u8]) -> Attributes {
    attributes.put(A::PRIME, Value::Bytes(Secret::new(prime)));
    attributes.put(A::BASE, Value::Bytes(base.into()));
    attributes.put(A::LOCAL, Value::Flag(true));
    attributes
}

/// Checks the prime and base of created domain parameters, and sets the size of the prime.
pub(crate) fn check(attributes: &mut Attributes, provider: &Provider) -> Result<()> {
    let prime = attributes.bytes(A::PRIME).ok_or(Error::TemplateIncomplete)?;
    provider.keys.check_group(prime, attributes.bytes(A::BASE).ok_or(Error::TemplateIncomplete)?)?;
    attributes.put(A::PRIME_BITS, Value::Number(key::bit_size(prime)));
    attributes.put(A::LOCAL, Value::Flag(false));
    Ok(())
}
