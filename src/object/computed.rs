//! Attributes that the token computes from other attributes when a caller reads them. `verify`
//! compares a value in a template with the computed value. An object stores such a value only if
//! its template contained it. Objects that an older version stored without these attributes have
//! them too.

use std::sync::{Arc, OnceLock};

use jeton_secret::Secret;
use tracing::warn;

use super::attribute::{self, Default, ObjectTypes};
use super::key_type::{KeyTypeRow, stateful};
use super::required::refused_in;
use super::value::Value;
use super::{Attributes, clock, key, spki};
use crate::backend::{Direction, Hash, Provider};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, MechanismType};
use crate::mechanism::rule;

/// The length of a check value in bytes (PKCS#11 3.2, "Secret key objects", "Certificate objects").
const CHECK_LEN: usize = 3;
/// The attributes that a template may contain and the token verifies.
const VERIFIED: [A; 2] = [A::CHECK_VALUE, A::PUBLIC_KEY_INFO];

/// Returns whether an attribute of this class and type is computed.
pub(crate) fn is(id: A, object_type: ObjectTypes) -> bool {
    // This list is a shortcut: for most attributes the lookup of the rule is unnecessary.
    matches!(
        id,
        A::CHECK_VALUE
            | A::PUBLIC_KEY_INFO
            | A::EC_POINT
            | A::OBJECT_VALIDATION_FLAGS
            | A::HSS_KEYS_REMAINING
            | A::NAME_HASH_ALGORITHM
            | A::VALUE
    ) && attribute::rule(id, object_type).is_some_and(|rule| rule.default == Default::Computed)
}

/// The values that need an algorithm, after the first time that they are read. They may take long
/// to compute, and a call may ask for them many times.
#[derive(Default, Clone)]
pub(super) struct Known {
    check_value: OnceLock<Option<Arc<Value>>>,
    public_key_info: OnceLock<Option<Arc<Value>>>,
}

impl Known {
    /// Returns the value of a computed attribute. Computes it with `compute` unless it is known.
    pub(super) fn value(&self, id: A, compute: impl FnOnce() -> Option<Value>) -> Option<Value> {
        let place = match id {
            A::CHECK_VALUE => &self.check_value,
            A::PUBLIC_KEY_INFO => &self.public_key_info,
            _ => return compute(),
        };
        place.get_or_init(|| compute().map(Arc::new)).as_ref().map(|value| value.duplicate())
    }
}

/// Returns the value of a computed attribute; `None` if the object lacks an attribute that it is
/// computed from.
pub(crate) fn value(
    id: A,
    attributes: &Attributes,
    object_type: ObjectTypes,
    provider: &Provider,
) -> Option<Value> {
    match id {
        A::CHECK_VALUE => check_value(attributes, provider).map(Value::Bytes),
        A::PUBLIC_KEY_INFO => Some(Value::Bytes(public_key_info(attributes, object_type, provider))),
        A::OBJECT_VALIDATION_FLAGS => Some(Value::Number(0)),
        A::HSS_KEYS_REMAINING => {
            stateful::one_time_keys_left(attributes).map(|left| Value::Number(left.min(u32::MAX.into())))
        }
        // PKCS#11 3.2, "Trust objects": "defaults to SHA-1 if not present".
        A::NAME_HASH_ALGORITHM => Some(Value::Number(MechanismType::SHA_1.0)),
        A::VALUE if object_type == ObjectTypes::CLOCK => Some(Value::Bytes(clock::now()[..].into())),
        _ => None,
    }
}

/// Checks that the template's value of a computed attribute equals the computed value; an empty
/// value is ignored. PKCS#11 3.2, "Secret key objects" (`CKA_CHECK_VALUE`), "Private key objects"
/// (`CKA_PUBLIC_KEY_INFO`). `CKA_PUBLIC_KEY_INFO` of a certificate is not checked: the caller
/// chooses its value. That of a share is not checked either: no value here gives its public key.
pub(crate) fn verify(attributes: &Attributes, object_type: ObjectTypes, provider: &Provider) -> Result<()> {
    let is_share = attributes.number(A::KEY_TYPE) == Some(KeyType::JETON_SHARE.0);
    let is_of_pair = object_type.is_key() && !object_type.is_secret() && !is_share;
    for id in VERIFIED.into_iter().filter(|id| *id != A::PUBLIC_KEY_INFO || is_of_pair) {
        let Some(given) = attributes.bytes(id).filter(|given| !given.is_empty()) else { continue };
        if !is(id, object_type) {
            continue;
        }
        match value(id, attributes, object_type, provider) {
            Some(Value::Bytes(own)) if own[..] == *given => {}
            // The comparison would show three bytes of the check value at each call.
            Some(Value::Bytes(own)) if own.is_empty() && id == A::CHECK_VALUE => {
                warn!(attribute = %id, "a key with bytes of an unreadable key has no check value");
                return Err(Error::AttributeValueInvalid);
            }
            _ => {
                let clause = "Key objects: the token computes another value";
                return Err(refused_in(attributes, id, clause, Error::AttributeValueInvalid));
            }
        }
    }
    Ok(())
}

/// Returns the check value: the first bytes of an encrypted block of zeros, or of the SHA-1 digest
/// of the value. It is empty for a key with bytes of an unreadable key.
fn check_value(attributes: &Attributes, provider: &Provider) -> Option<Secret> {
    if !rule::has_check_value(attributes.makeup()) {
        return Some(Secret::default());
    }
    let value = attributes.bytes(A::VALUE).filter(|value| !value.is_empty())?;
    let mut out = [0; Hash::Sha1.len()];
    match KeyTypeRow::of_object(attributes).ok().and_then(|row| row.check_cipher) {
        Some(cipher) => {
            let (scheme, block) = cipher();
            let mut cipher = provider.ciphers.cipher(&scheme, Direction::Encrypt, value).ok()?;
            let written = cipher.update(&[0; 16][..block], &mut out).ok()?;
            cipher.finish(&mut out[written..]).ok()?;
        }
        None => provider.digest.hash(Hash::Sha1, value, &mut out).ok()?,
    }
    Some(out[..CHECK_LEN].into())
}

/// Returns the public key as SubjectPublicKeyInfo; empty if it cannot be computed. PKCS#11 3.2,
/// "Private key objects", allows an empty value.
fn public_key_info(attributes: &Attributes, object_type: ObjectTypes, provider: &Provider) -> Secret {
    let info = if object_type.is_certificate() {
        attributes.bytes(A::VALUE).and_then(|value| spki::of_certificate(value).ok())
    } else {
        key::public_half(attributes, object_type, provider)
            .and_then(|parts| spki::encode(attributes, &parts))
            .ok()
    };
    info.map(Secret::new).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_value_that_takes_long_is_computed_once() {
        for id in VERIFIED {
            let (known, count) = (Known::default(), Cell::new(0));
            let read = || {
                known.value(id, || {
                    count.set(count.get() + 1);
                    Some(Value::Number(7))
                })
            };
            assert!((0..3).all(|_| read().is_some_and(|value| value.equals(&Value::Number(7)))));
            assert_eq!(count.get(), 1, "{id}");
        }
    }

    #[test]
    fn an_object_of_an_older_version_has_computed_attributes() {
        use crate::object::{AttributeView, Home, Object};
        // RFC 8032, 7.1, test 1. The older version stored an empty `CKA_PUBLIC_KEY_INFO` if the
        // template lacked the attribute. It stored no `CKA_OBJECT_VALIDATION_FLAGS`.
        let point = *b"\xd7\x5a\x98\x01\x82\xb1\x0a\xb7\xd5\x4b\xfe\xd3\xc9\x64\x07\x3a\x0e\xe1\x72\xf3\xda\xa6\x23\x25\
            \xaf\x02\x1a\x68\xf7\x07\x51\x1a";
        let mut stored = Attributes::default();
        stored.put(A::CLASS, Value::Number(crate::id::ObjectClass::PUBLIC_KEY.0));
        stored.put(A::KEY_TYPE, Value::Number(KeyType::EC_EDWARDS.0));
        stored.put(A::EC_PARAMS, Value::Bytes([0x06, 0x03, 0x2b, 0x65, 0x70][..].into()));
        stored.put(A::EC_POINT, Value::Bytes([&[4, 32], &point[..]].concat()[..].into()));
        stored.put(A::PUBLIC_KEY_INFO, Value::Bytes(Secret::default()));
        let object = Object::new(Home::Token(1), stored, Provider::ALL[0]).expect("a key");
        let read = |id| match object.attribute(id) {
            Ok(AttributeView::Bytes(bytes)) => bytes.into_owned(),
            _ => panic!("{id}"),
        };
        // RFC 8410, 4: the header before the bytes of the key.
        let header = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        assert_eq!(read(A::PUBLIC_KEY_INFO), [&header[..], &point].concat());
        assert!(read(A::OBJECT_VALIDATION_FLAGS).iter().all(|byte| *byte == 0));
        assert!(object.shows(A::PUBLIC_KEY_INFO, &Value::Bytes(read(A::PUBLIC_KEY_INFO)[..].into())));
    }
}
