//! Attributes that a key must have, and the log line of a refused one.

use std::ffi::c_ulong;

use tracing::{debug, warn};

use super::Attributes;
use super::template::{Given, Raw};
use super::value::Value;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType};

/// Sets an attribute to the mechanism's result. Fails with `TemplateInconsistent` if the template
/// has another value.
pub(super) fn put_same(attributes: &mut Attributes, id: A, made: &[u8]) -> Result<()> {
    if attributes.bytes(id).is_some_and(|given| given != made) {
        return Err(refused_in(attributes, id, CREATING, Error::TemplateInconsistent));
    }
    attributes.put(id, Value::Bytes(made.into()));
    Ok(())
}

/// The clause of PKCS#11 3.2 with the errors of a template.
pub(crate) const CREATING: &str = "Creating objects";
/// The clause about attributes that contradict each other or a key of the token.
pub(crate) const CONFLICT: &str = "Creating objects, CKR_TEMPLATE_INCONSISTENT";
/// The clause of sizes: those of `C_GetMechanismInfo`.
pub(crate) const SIZES: &str = "C_GetMechanismInfo, ulMinKeySize and ulMaxKeySize";
pub(crate) const BY_SO: &str = "Common footnotes, 10: only the SO sets it to CK_TRUE";

/// Logs which attribute a call is refused for, with the length of its value in bytes and the clause
/// of PKCS#11 3.2, because the return code does not say it. `len` is `None` if the attribute is
/// missing. Returns the error.
#[cold]
pub(crate) fn refused(attribute: A, len: Option<usize>, clause: &str, error: Error) -> Error {
    const WHAT: &str = "a template or a change is refused";
    match error {
        Error::AttributeReadOnly | Error::TemplateInconsistent | Error::AttributeValueInvalid => {
            warn!(%attribute, len, clause, ?error, "{WHAT}");
        }
        // Programs ask for what a token does not have.
        _ => debug!(%attribute, len, clause, ?error, "{WHAT}"),
    }
    error
}

/// Like [`refused`], for an attribute of a template.
#[cold]
pub(crate) fn refused_given(given: &Given<'_>, clause: &str, error: Error) -> Error {
    let len = match &given.value {
        Raw::Bytes(bytes) => bytes.len(),
        Raw::Template(nested) => nested.0.len(),
    };
    refused(given.id, Some(len), clause, error)
}

/// Like [`refused`], for an attribute that the new object may have.
#[cold]
pub(crate) fn refused_in(attributes: &Attributes, id: A, clause: &str, error: Error) -> Error {
    let len = match attributes.get(id) {
        Some(Value::Bytes(bytes)) => Some(bytes.len()),
        Some(Value::Number(_)) => Some(size_of::<c_ulong>()),
        Some(Value::Numbers(numbers)) => Some(numbers.len() * size_of::<c_ulong>()),
        Some(Value::Template(nested)) => Some(nested.len()),
        Some(Value::Flag(_)) => Some(1),
        None => attributes.flag(id).map(|_| 1),
    };
    refused(id, len, clause, error)
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
