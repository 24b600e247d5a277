//! A template as the caller gave it: attribute numbers with raw values, not yet read.

use crate::id::AttributeType;

/// The attributes of a `C_CreateObject`, `C_FindObjectsInit`, … call.
#[derive(Clone, Default)]
pub struct Template<'a>(pub Vec<Given<'a>>);

/// One attribute of a template.
#[derive(Clone)]
pub struct Given<'a> {
    /// Which.
    pub id: AttributeType,
    /// Its value.
    pub value: Raw<'a>,
}

/// A value as it came through the C interface.
#[derive(Clone)]
pub enum Raw<'a> {
    /// Bytes in the caller's representation: a `CK_ULONG` in native order, a `CK_BBOOL` as one byte.
    Bytes(&'a [u8]),
    /// The value of an attribute whose number has `CKF_ARRAY_ATTRIBUTE` and that holds attributes.
    Template(Template<'a>),
}

impl<'a> Template<'a> {
    /// The same with an attribute more, where it is not there.
    pub fn or(mut self, id: AttributeType, value: &'a [u8]) -> Self {
        if !self.0.iter().any(|given| given.id == id) {
            self.0.push(Given { id, value: Raw::Bytes(value) });
        }
        self
    }

    /// The bytes of an attribute; the first, should it stand there twice.
    pub fn bytes(&self, id: AttributeType) -> Option<&'a [u8]> {
        self.0.iter().find(|given| given.id == id).and_then(|given| match given.value {
            Raw::Bytes(bytes) => Some(bytes),
            Raw::Template(_) => None,
        })
    }
}
