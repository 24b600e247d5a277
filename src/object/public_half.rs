//! The public key that belongs to a private one (PKCS#11 3.2, "Public key from private key").

use super::access::Rights;
use super::attribute::{self, ObjectTypes};
use super::make::{self, Use};
use super::required::{CONFLICT, refused_in};
use super::template::Template;
use super::value::Value;
use super::{Attributes, key};
use crate::backend::PublicParts;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass};

/// The attributes that the public key takes from the private key if the template does not have
/// them. Each pair is the public key's attribute and the private key's attribute.
const TAKEN_OVER: [(A, A); 12] = [
    (A::ENCRYPT, A::DECRYPT),
    (A::VERIFY, A::SIGN),
    (A::VERIFY_RECOVER, A::SIGN_RECOVER),
    (A::WRAP, A::UNWRAP),
    (A::ENCAPSULATE, A::DECAPSULATE),
    (A::DERIVE, A::DERIVE),
    (A::ID, A::ID),
    (A::START_DATE, A::START_DATE),
    (A::END_DATE, A::END_DATE),
    (A::SUBJECT, A::SUBJECT),
    (A::PUBLIC_KEY_INFO, A::PUBLIC_KEY_INFO),
    (A::ALLOWED_MECHANISMS, A::ALLOWED_MECHANISMS),
];

/// Returns the attributes of the public key. The template must follow the rules of
/// `C_CreateObject`. Its class, key type, parameter set and key parts must be those of the pair.
pub(crate) fn attributes(
    template: &Template<'_>,
    private: &Attributes,
    parts: &PublicParts,
    rights: Rights,
) -> Result<Attributes> {
    let key_type = private.number(A::KEY_TYPE).ok_or(Error::GeneralError)?;
    let object_type =
        ObjectTypes::of(ObjectClass::PUBLIC_KEY, Some(key_type)).ok_or(Error::KeyTypeInconsistent)?;
    let mut public = make::read(&template.0, object_type, Use::Create, rights)?;
    let set = private.number(A::PARAMETER_SET).map(|set| (A::PARAMETER_SET, set));
    let identity = [(A::CLASS, ObjectClass::PUBLIC_KEY.0), (A::KEY_TYPE, key_type)];
    for (id, number) in identity.into_iter().chain(set) {
        if public.has(id) && public.number(id) != Some(number) {
            return Err(refused_in(&public, id, CONFLICT, Error::TemplateInconsistent));
        }
        public.put(id, Value::Number(number));
    }
    key::put_public(&mut public, parts)?;
    take_over(&mut public, private, object_type);
    make::complete(&mut public, object_type, Use::Create, rights)?;
    make::put_origin(&mut public, object_type, None);
    if let Some(made_by) = private.get(A::KEY_GEN_MECHANISM) {
        public.put(A::KEY_GEN_MECHANISM, made_by.duplicate());
    }
    Ok(public)
}

fn take_over(public: &mut Attributes, private: &Attributes, object_type: ObjectTypes) {
    for (id, from) in TAKEN_OVER {
        if public.has(id) || attribute::rule(id, object_type).is_none() {
            continue;
        }
        let value = private.flag(from).map(Value::Flag).or_else(|| private.get(from).map(Value::duplicate));
        if let Some(value) = value {
            public.put(id, value);
        }
    }
    // PKCS#11 3.2, "Public key from private key": CKA_DESTROYABLE is false by default, unlike in
    // other objects.
    if !public.has(A::DESTROYABLE) {
        public.put(A::DESTROYABLE, Value::Flag(false));
    }
}
