//! A template from the caller: attribute numbers with raw values, which are not yet checked.

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::id::AttributeType;

/// The attributes in a call of `C_CreateObject`, `C_FindObjectsInit` or another function.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Template<'a>(#[serde(borrow, deserialize_with = "bounded::nested")] pub Vec<Given<'a>>);

/// One attribute of a template.
#[derive(Clone, Serialize, Deserialize)]
pub struct Given<'a> {
    /// The attribute number.
    pub id: AttributeType,
    /// Its value.
    #[serde(borrow)]
    pub value: Raw<'a>,
}

/// A value as it came through the C interface.
#[derive(Clone, Serialize, Deserialize)]
pub enum Raw<'a> {
    /// Bytes in the caller's representation: a `CK_ULONG` in native order, a `CK_BBOOL` as one
    /// byte.
    Bytes(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// The value of an attribute that contains a template, such as `CKA_WRAP_TEMPLATE`.
    Template(#[serde(borrow)] Template<'a>),
}

impl<'a> Template<'a> {
    /// Returns the template with this attribute added, unless it already has the attribute.
    pub fn or(mut self, id: AttributeType, value: &'a [u8]) -> Self {
        if !self.0.iter().any(|given| given.id == id) {
            self.0.push(Given { id, value: Raw::Bytes(value) });
        }
        self
    }

    /// Returns the bytes of an attribute; the first value if the template repeats it. Returns
    /// `None` if it is absent or contains a template.
    pub fn bytes(&self, id: AttributeType) -> Option<&'a [u8]> {
        self.0.iter().find(|given| given.id == id).and_then(|given| match given.value {
            Raw::Bytes(bytes) => Some(bytes),
            Raw::Template(_) => None,
        })
    }
}
