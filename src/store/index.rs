//! The names under which objects are found: a keyed hash of an attribute and its value, 64 bits long.
//!
//! A row of the store carries its object's names, so that a search needs no record opened. Those of private objects
//! are under a key that only a login opens: they tell nothing but which private objects share a value.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use smallvec::SmallVec;

use crate::id::AttributeType as A;
use crate::object::Attributes;
use crate::object::value::Value;
use crate::secret::Secret;

/// The attributes that have names; the others are compared object by object.
const NAMED: [A; 8] =
    [A::CLASS, A::KEY_TYPE, A::ID, A::LABEL, A::UNIQUE_ID, A::SUBJECT, A::ISSUER, A::SERIAL_NUMBER];

/// Length of a namer's key in bytes.
pub const NAMER_KEY: usize = 16;

/// The names of an object: of a key three or four, and in place, for a pointer among a million objects leads out of the
/// caches.
pub type Names = SmallVec<[u64; 6]>;

/// Makes names.
pub struct Namer(Secret);

impl Namer {
    /// With a key.
    pub fn new(key: &[u8; NAMER_KEY]) -> Self {
        Self(Secret::from(&key[..]))
    }

    /// The key.
    pub(super) fn key(&self) -> &[u8; NAMER_KEY] {
        self.0.as_array().expect("the length that it was made with")
    }

    /// The name of a value; `None` for attributes without names, and for no bytes: the default of most objects
    /// narrows nothing.
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

    /// All names of an object.
    pub fn names(&self, attributes: &Attributes) -> Names {
        let named = NAMED.into_iter().filter_map(|id| self.name(id, attributes.get(id)?));
        named.collect()
    }

    fn hash(&self, id: A, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(self.key());
        // Not write_u64, which is of the machine's byte order: names are stored.
        let id = id.0.to_le_bytes();
        let mut joined = [0; 64];
        match joined.get_mut(..id.len() + bytes.len()) {
            // The hash is of the same bytes; one call does with fewer instructions than two.
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
