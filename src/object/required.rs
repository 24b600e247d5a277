//! Attributes that a key must have, and the log line of a refused one.

use tracing::warn;

use super::Attributes;
use super::value::Value;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};

/// Sets an attribute to the mechanism's result. Fails with `TemplateInconsistent` if the template
/// has another value.
pub(super) fn put_same(attributes: &mut Attributes, id: A, made: &[u8]) -> Result<()> {
    if attributes.bytes(id).is_some_and(|given| given != made) {
        return Err(refused(id, Error::TemplateInconsistent));
    }
    attributes.put(id, Value::Bytes(made.into()));
    Ok(())
}

/// Logs which attribute a call is refused for, because the return code does not say it. Returns the
/// error.
pub(crate) fn refused(attribute: A, error: Error) -> Error {
    if matches!(error, Error::AttributeReadOnly | Error::TemplateInconsistent | Error::AttributeValueInvalid)
    {
        warn!(%attribute, ?error, "a template or a change is refused");
    }
    error
}

/// Returns `CKA_KEY_TYPE`. Fails with `TemplateIncomplete` if it is absent.
pub(super) fn key_type(attributes: &Attributes) -> Result<KeyType> {
    attributes.number(A::KEY_TYPE).map(KeyType).ok_or(Error::TemplateIncomplete)
}

/// Returns an attribute that the key must have. Fails with `TemplateIncomplete` if it is absent.
pub(super) fn bytes(attributes: &Attributes, id: A) -> Result<&[u8]> {
    attributes.bytes(id).ok_or(Error::TemplateIncomplete)
}

/// Returns several attributes that the key must have.
pub(super) fn all_bytes<const N: usize>(attributes: &Attributes, ids: [A; N]) -> Result<[Vec<u8>; N]> {
    ids.iter().try_for_each(|id| bytes(attributes, *id).map(drop))?;
    Ok(ids.map(|id| attributes.bytes(id).unwrap_or_default().to_vec()))
}

/// Returns `CKA_VALUE`. Fails with `TemplateIncomplete` if it is absent.
pub(super) fn value(attributes: &Attributes) -> Result<&[u8]> {
    bytes(attributes, A::VALUE)
}
