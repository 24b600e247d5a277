//! Applies the rules of [`crate::config::fips`] to keys.

use super::key_type::ec;
use super::value::bit_size;
use super::{Attributes, key};
use crate::config::fips;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};
use crate::mechanism::{Action, Derivation, Mechanism, row_of};

/// Fails unless the parameter of the mechanism and the key are approved.
pub(crate) fn permit(mechanism: &Mechanism, attributes: &Attributes) -> Result<()> {
    fips::check_parameter(mechanism)?;
    admit(attributes)?;
    let is_secret = attributes.object_type().is_some_and(|object_type| object_type.is_secret());
    let is_generic = attributes.number(A::KEY_TYPE) == Some(KeyType::GENERIC_SECRET.0);
    // SP 800-56A, 5.8: the shared secret goes into a KDF, and is no key itself.
    if row_of(mechanism.info).action == Action::Derive(Derivation::Ecdh) && is_secret && !is_generic {
        return Err(Error::TemplateInconsistent);
    }
    match key::secret(attributes) {
        Ok(value) if !fips::approves_len(row_of(mechanism.info), value.len()) => Err(Error::KeySizeRange),
        _ => Ok(()),
    }
}

/// Fails with `KeySizeRange` if an object is a key whose type or size no approved service has.
pub(crate) fn admit(attributes: &Attributes) -> Result<()> {
    let Some(object_type) = attributes.object_type().filter(|object_type| object_type.is_key()) else {
        return Ok(());
    };
    let approved = match attributes.number(A::KEY_TYPE).map(KeyType) {
        // FIPS 186-5, A.1.1: an even number of bits, and a public exponent above 2^16. The module
        // generates 65537 alone.
        Some(KeyType::RSA) => {
            let is_good = |bits| bits >= fips::RSA_BITS && bits % 2 == 0;
            let is_usual = |e: &[u8]| bit_size(e) == 17 && e.ends_with(&[1, 0, 1]);
            attributes.bytes(A::MODULUS).is_none_or(|modulus| is_good(bit_size(modulus)))
                && attributes.bytes(A::PUBLIC_EXPONENT).is_none_or(is_usual)
        }
        Some(KeyType::EC | KeyType::EC_EDWARDS) => {
            ec::named_curve(attributes).is_ok_and(fips::approves_curve)
        }
        Some(KeyType::ML_KEM) => true,
        Some(KeyType::DES3 | KeyType::CHACHA20) => false,
        _ => {
            object_type.is_secret()
                && key::secret(attributes).is_ok_and(|value| value.len() >= fips::SECRET_LEN)
        }
    };
    if approved { Ok(()) } else { Err(Error::KeySizeRange) }
}
