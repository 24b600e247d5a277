//! Secrets in messages.

use std::fmt::{Formatter, Result as Written};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Secret;

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes)
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Secret;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Secret, E> {
        Secret::try_copy(bytes).map_err(|_| E::custom("no memory"))
    }

    /// A vector that a decoder made is wiped.
    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Secret, E> {
        Ok(Secret::new(bytes))
    }
}
