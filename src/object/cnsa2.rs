//! Applies the policy *cnsa2* to objects. Its rules are the tables of [`crate::config::cnsa2`].

use tracing::warn;

use super::Attributes;
use super::required::{key_type, value};
use crate::config::cnsa2::{Strength, strength};
use crate::error::{Error, Result};
use crate::id::AttributeType as A;

/// Fails with `KeySizeRange` unless a key is one of the suite.
pub(crate) fn check(attributes: &Attributes) -> Result<()> {
    if is_in_suite(attributes)? {
        return Ok(());
    }
    warn!(key_type = %key_type(attributes)?, "the policy cnsa2 refuses a key that CNSA 2.0 lacks");
    Err(Error::KeySizeRange)
}

/// Returns whether a key is one of the suite.
pub(crate) fn is_in_suite(attributes: &Attributes) -> Result<bool> {
    let len = || value(attributes).map_or(0, <[u8]>::len);
    Ok(match strength(key_type(attributes)?) {
        None => false,
        Some(Strength::Any) => true,
        Some(Strength::Set(set)) => attributes.number(A::PARAMETER_SET) == Some(set),
        Some(Strength::Levels(levels)) => attributes.number(A::HSS_LEVELS) == Some(levels),
        Some(Strength::Bytes(only)) => len() == only,
        Some(Strength::AtLeast(least)) => len() >= least,
    })
}
