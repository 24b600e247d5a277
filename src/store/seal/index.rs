//! Index keys of objects. An index key is a keyed 64-bit hash of an attribute and its value.
//!
//! A row of the store contains its object's index keys, so that a search for indexed attributes
//! reads no records. Index keys of private objects use a key that only a login unwraps. They reveal
//! only which private objects share a value.

use std::hash::Hasher;

use jeton_secret::Secret;
use siphasher::sip::SipHasher24;
use smallvec::SmallVec;

use super::algorithms::hmac;
use crate::config::Format;
use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::value::Value;

/// The indexed attributes. A search compares other attributes object by object.
const INDEXED: [A; 8] =
    [A::CLASS, A::KEY_TYPE, A::ID, A::LABEL, A::UNIQUE_ID, A::SUBJECT, A::ISSUER, A::SERIAL_NUMBER];

/// The length in bytes of the encoded index keys of an object that has all of them.
pub(in crate::store) const LONGEST_KEYS: usize = 8 * INDEXED.len();

/// The length in bytes of the key with which index keys are computed.
pub(crate) const INDEXER_KEY: usize = 16;

/// The index keys of an object; a cryptographic key has three to six. They are stored inline: with
/// a million objects, each pointer would cause a cache miss.
pub(crate) type IndexKeys = SmallVec<[u64; 6]>;

/// Encodes index keys for a store: 8 bytes each, least significant byte first.
pub(in crate::store) fn encode(index_keys: &[u64]) -> Vec<u8> {
    index_keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

/// Decodes index keys. Ignores a remainder that is too short for an index key.
pub(in crate::store) fn decode(bytes: &[u8]) -> IndexKeys {
    bytes.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key)).collect()
}

/// Computes index keys with a secret key.
pub(crate) struct Indexer {
    format: Format,
    key: Secret,
}

impl Indexer {
    pub(crate) fn new(format: Format, key: &[u8; INDEXER_KEY]) -> Self {
        Self { format, key: Secret::from(&key[..]) }
    }

    pub(in crate::store) fn key(&self) -> &[u8; INDEXER_KEY] {
        self.key.as_array().expect("the length that it was made with")
    }

    /// Returns the index key of a value; `None` for attributes that are not indexed. An empty value
    /// has no index key: most objects have empty values by default, so the key would not narrow a
    /// search.
    pub(crate) fn index_key(&self, id: A, value: &Value) -> Option<u64> {
        if !INDEXED.contains(&id) {
            return None;
        }
        match value {
            Value::Number(number) => Some(self.hash(id, &number.to_le_bytes())),
            Value::Bytes(bytes) if !bytes.is_empty() => Some(self.hash(id, bytes)),
            _ => None,
        }
    }

    pub(crate) fn index_keys(&self, attributes: &Attributes) -> IndexKeys {
        let named = INDEXED.into_iter().filter_map(|id| self.index_key(id, attributes.get(id)?));
        named.collect()
    }

    fn hash(&self, id: A, bytes: &[u8]) -> u64 {
        // Not write_u64, which depends on the machine's byte order: index keys are stored.
        let id = id.0.to_le_bytes();
        if self.format == Format::Fips {
            return u128::from_le_bytes(hmac(self.key(), &[&id, bytes])) as u64;
        }
        let mut hasher = SipHasher24::new_with_key(self.key());
        let mut joined = [0; 64];
        match joined.get_mut(..id.len() + bytes.len()) {
            // Both arms hash the same bytes. One call needs fewer instructions than two.
            Some(joined) => {
                joined[..id.len()].copy_from_slice(&id);
                joined[id.len()..].copy_from_slice(bytes);
                hasher.write(joined);
            }
            None => {
                hasher.write(&id);
                hasher.write(bytes);
            }
        }
        hasher.finish()
    }
}
