//! Domain parameters (PKCS#11 3.2, "Diffie-Hellman domain parameter objects").

use super::policy::Rights;
use super::template::Template;
use super::value::Value;
use super::{Attributes, key, make};
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, ObjectClass};
use crate::secret::Secret;

/// Returns the attributes of domain parameters of `C_GenerateKey`, before the prime exists. They
/// say which size of prime to generate.
pub(crate) fn generate(template: &Template<'_>, key_type: KeyType, rights: Rights) -> Result<Attributes> {
    let identity = [(A::CLASS, ObjectClass::DOMAIN_PARAMETERS.0), (A::KEY_TYPE, key_type.0)];
    make::generated(template, &identity, rights)
}

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
