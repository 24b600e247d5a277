//! Search names of objects. A name is a keyed 64-bit hash of an attribute and its value.
//!
//! A row of the store contains its object's names, so that a search needs no records. Names of
//! private objects use a key that only a login unwraps. They reveal only which private objects
//! share a value.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use smallvec::SmallVec;

use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::value::Value;
use crate::secret::Secret;

/// The attributes that have names. A search compares other attributes object by object.
const NAMED: [A; 8] =
    [A::CLASS, A::KEY_TYPE, A::ID, A::LABEL, A::UNIQUE_ID, A::SUBJECT, A::ISSUER, A::SERIAL_NUMBER];

/// The length of a namer's key in bytes.
pub const NAMER_KEY: usize = 16;

/// The names of an object; a key has three or four. They are stored inline: with a million objects,
/// each pointer would cause a cache miss.
pub type Names = SmallVec<[u64; 6]>;

/// Computes names with a key.
pub struct Namer(Secret);

impl Namer {
    /// Returns a namer with this key.
    pub fn new(key: &[u8; NAMER_KEY]) -> Self {
        Self(Secret::from(&key[..]))
    }

    /// Returns the key.
    pub(super) fn key(&self) -> &[u8; NAMER_KEY] {
        self.0.as_array().expect("the length that it was made with")
    }

    /// Returns the name of a value; `None` for attributes without names. An empty value has no name
    /// either: most objects have it by default, so it would not narrow a search.
    pub fn name(&self, id: A, value: &Value) -> Option<u64> {
        if !NAMED.contains(&id) {
            return None;
        }
        match value {
            Value::Number(number) => Some(self.hash(id, &number.to_le_bytes())),
            Value::Bytes(bytes) if !bytes.is_empty() => Some(self.hash(id, bytes)),
            _ => None,
        }
    }

    /// Returns all names of an object.
    pub fn names(&self, attributes: &Attributes) -> Names {
        let named = NAMED.into_iter().filter_map(|id| self.name(id, attributes.get(id)?));
        named.collect()
    }

    fn hash(&self, id: A, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(self.key());
        // Not write_u64, which depends on the machine's byte order: names are stored.
        let id = id.0.to_le_bytes();
        let mut joined = [0; 64];
        match joined.get_mut(..id.len() + bytes.len()) {
            // The hash is over the same bytes. One call needs fewer instructions than two.
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
