//! The fields of a vector. Wycheproof and ACVP have the same layout: a file has groups, and a group
//! has tests.

use serde_json::Value;

use crate::{hex, integer};

/// A vector: its test, the group of the test, and the file. If all tests of a group share a value,
/// the group has the field.
pub struct Vector<'a>(pub [&'a Value; 3]);

impl Vector<'_> {
    /// Returns the field, if the vector has it. The path may lead to a field of a structure, for
    /// example `publicKey/modulus`.
    fn field(&self, path: &str) -> Option<&Value> {
        self.0.iter().find_map(|holder| holder.pointer(&format!("/{path}")))
    }

    /// Returns a text, or an empty text if the vector lacks the field.
    pub fn text(&self, path: &str) -> &str {
        self.field(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a number, or 0 if the vector lacks the field.
    pub fn number(&self, path: &str) -> usize {
        self.field(path).and_then(Value::as_u64).unwrap_or_default() as usize
    }

    /// Returns whether the vector has the field, and it is false.
    pub fn is_false(&self, path: &str) -> bool {
        self.field(path).and_then(Value::as_bool) == Some(false)
    }

    /// Returns the bytes of a field, if the vector has it.
    pub fn optional(&self, path: &str) -> Option<Vec<u8>> {
        self.field(path).and_then(Value::as_str).map(hex)
    }

    /// Returns the bytes of a field that the vector must have.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.optional(path).unwrap_or_else(|| panic!("{}: no {path}", self.0[0]))
    }

    /// Returns a big integer without leading zeros.
    pub fn integer(&self, path: &str) -> Vec<u8> {
        integer(&self.bytes(path))
    }
}
