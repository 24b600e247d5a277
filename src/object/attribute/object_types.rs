//! The object types that the token knows: each class together with a key, certificate or hardware
//! feature type.

use super::{Default, ObjectTypes};
use crate::id::{AttributeType as A, KeyType as K, ObjectClass, value};
use crate::mechanism::rule::Structure;
use crate::object::key_type::{CLASSES, KeyTypeRow, ROWS, counted, of_class};

#[allow(missing_docs, reason = "the names are the specification's")]
impl ObjectTypes {
    pub const DATA: Self = Self::member(0);
    pub const X_509: Self = Self::member(1);
    pub const X_509_ATTRIBUTE: Self = Self::member(44);
    pub const WTLS: Self = Self::member(45);
    pub const TRUST: Self = Self::member(46);
    pub(crate) const PROFILE: Self = Self::member(47);
    pub(crate) const MECHANISM: Self = Self::member(48);
    /// The clock, the only hardware feature.
    pub(crate) const CLOCK: Self = Self::member(49);
    pub(crate) const VALIDATION: Self = Self::member(50);

    pub(super) const PUBLIC: Self = of_class(ObjectClass::PUBLIC_KEY);
    pub(super) const PRIVATE: Self = of_class(ObjectClass::PRIVATE_KEY);
    pub(super) const OTP: Self = of_class(ObjectClass::OTP_KEY);
    pub(super) const SECRET: Self = of_class(ObjectClass::SECRET_KEY).or(Self::OTP);
    pub const PARAMETERS: Self = of_class(ObjectClass::DOMAIN_PARAMETERS);
    pub(super) const HIDDEN: Self = Self::PRIVATE.or(Self::SECRET);
    /// The keys of the types that count what each key does.
    pub(crate) const COUNTED: Self = counted();
    pub(super) const KEYS: Self = Self::PUBLIC.or(Self::HIDDEN);
    pub(super) const CERTIFICATES: Self = Self::X_509.or(Self::X_509_ATTRIBUTE).or(Self::WTLS);
    /// PKCS#11 3.2, "Object Classification": the objects that applications create.
    pub(super) const STORAGE: Self =
        Self::KEYS.or(Self::DATA).or(Self::CERTIFICATES).or(Self::TRUST).or(Self::PARAMETERS);
    /// Those objects that applications create and that have no secret part.
    pub(super) const OPEN: Self = Self::STORAGE.without(Self::HIDDEN);
    /// The built-in objects, which applications cannot create.
    pub(super) const BUILT_IN: Self = Self::PROFILE.or(Self::MECHANISM).or(Self::CLOCK).or(Self::VALIDATION);
    pub(super) const ALL: Self = Self::STORAGE.or(Self::BUILT_IN);

    /// Returns every class with its key, certificate or feature type, and the corresponding set.
    pub fn known() -> impl Iterator<Item = (ObjectClass, Option<u64>, ObjectTypes)> {
        let objects = |row: &'static KeyTypeRow| {
            CLASSES.map(|class| (class, Some(row.key_type.0), row.object(class))).into_iter()
        };
        let of_key_types = ROWS.into_iter().flat_map(objects).filter(|(_, _, object)| *object != Self::NONE);
        of_key_types.chain(OTHERS.iter().copied())
    }

    /// Returns the set that contains only this class and type. `kind` is the key, certificate or
    /// feature type.
    pub fn of(class: ObjectClass, kind: Option<u64>) -> Option<Self> {
        match kind.map_or(Self::NONE, |kind| KeyTypeRow::of(K(kind)).object(class)) {
            Self::NONE => {
                OTHERS.iter().find(|(known, sub, _)| *known == class && *sub == kind).map(|row| row.2)
            }
            of_key_type => Some(of_key_type),
        }
    }

    /// Returns whether it is a public, private or secret key.
    pub const fn is_key(self) -> bool {
        Self::KEYS.has(self)
    }

    pub const fn is_secret(self) -> bool {
        Self::SECRET.has(self)
    }

    pub const fn is_private(self) -> bool {
        Self::PRIVATE.has(self)
    }

    pub const fn is_public(self) -> bool {
        Self::PUBLIC.has(self)
    }

    pub(crate) const fn is_certificate(self) -> bool {
        Self::CERTIFICATES.has(self)
    }

    /// Returns whether it is a class of built-in objects.
    pub const fn is_built_in(self) -> bool {
        Self::BUILT_IN.has(self)
    }

    /// Returns whether it is a private or secret key.
    pub const fn is_hidden(self) -> bool {
        Self::HIDDEN.has(self)
    }
}

/// The objects that have no key type: each class, its certificate or feature type, and the set that
/// contains only this pair.
const OTHERS: &[(ObjectClass, Option<u64>, ObjectTypes)] = &[
    (ObjectClass::DATA, None, ObjectTypes::DATA),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509), ObjectTypes::X_509),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509_ATTRIBUTE), ObjectTypes::X_509_ATTRIBUTE),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_WTLS), ObjectTypes::WTLS),
    (ObjectClass::TRUST, None, ObjectTypes::TRUST),
    (ObjectClass::PROFILE, None, ObjectTypes::PROFILE),
    (ObjectClass::MECHANISM, None, ObjectTypes::MECHANISM),
    (ObjectClass::HW_FEATURE, Some(value::HW_CLOCK), ObjectTypes::CLOCK),
    (ObjectClass::VALIDATION, None, ObjectTypes::VALIDATION),
];

/// Returns the attribute that holds the key, certificate or feature type; `None` if the class has
/// no types.
pub(crate) fn type_of(class: ObjectClass) -> Option<A> {
    match class {
        ObjectClass::CERTIFICATE => Some(A::CERTIFICATE_TYPE),
        ObjectClass::HW_FEATURE => Some(A::HW_FEATURE_TYPE),
        class => CLASSES.contains(&class).then_some(A::KEY_TYPE),
    }
}

/// Returns the class of the secret keys of a type. PKCS#11 3.2, "OTP key objects": keys for
/// one-time passwords have their own class.
pub fn secret_class(key_type: K) -> ObjectClass {
    let is_otp = KeyTypeRow::of(key_type).otp != ObjectTypes::NONE;
    if is_otp { ObjectClass::OTP_KEY } else { ObjectClass::SECRET_KEY }
}

/// Returns the types of secret keys.
pub fn secret_types() -> impl Iterator<Item = K> {
    ROWS.into_iter().filter(|row| row.secret != ObjectTypes::NONE).map(|row| row.key_type)
}

/// Returns how a type of secret keys reads their bytes.
pub fn structure(key_type: K) -> Structure {
    KeyTypeRow::of(key_type).structure
}

/// Returns the length that a secret key of this type has if its template has no `CKA_VALUE_LEN`.
/// `None` if it is the length of the value, or if no secret key has this type.
pub(crate) fn default_len(key_type: K) -> Option<u64> {
    let object_type = KeyTypeRow::of(key_type).secret;
    if object_type == ObjectTypes::NONE {
        return None;
    }
    match super::rule(A::VALUE_LEN, object_type)?.default {
        Default::Number(len) => Some(len),
        _ => None,
    }
}

/// Returns whether a secret key of this type may have this number of bytes.
pub fn len_fits(key_type: K, len: usize) -> bool {
    (KeyTypeRow::of(key_type).len_fits)(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keys_of_hmacs_share_an_object_type() {
        let known: Vec<_> = ObjectTypes::known().collect();
        for (at, (class, _, object_type)) in known.iter().enumerate() {
            let twin = known[..at].iter().find(|(_, _, other)| other.has(*object_type));
            let of_hmac =
                *class == ObjectClass::SECRET_KEY && KeyTypeRow::of(K::SHA_1_HMAC).secret == *object_type;
            assert!(twin.is_none() || of_hmac, "{class} {object_type:?}");
        }
    }
}
