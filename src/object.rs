//! Objects. An object never changes: each modification creates a new object that replaces the old
//! one.
//!
//! `attribute` holds the attribute rules as a table. `template` holds the caller's input.
//! `make` builds the attributes of new objects. `key` converts between attributes and the parts
//! of a key, and `key_type` has the rules of each key type. `computed` computes attributes from
//! other attributes. `built_in` makes the objects that describe the token itself. `access`
//! decides which session may write an object. `strict` applies the policy *strict*, and `fips` the
//! rules of the validated module.

use std::sync::{Arc, OnceLock};

use jeton_secret::Secret;

use crate::backend::{PrivateKey, Provider, PublicKey};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass, SessionHandle};
use crate::mechanism::rule::Makeup;
use crate::quota::Permit;

pub(crate) mod access;
pub mod attribute;
pub(crate) mod built_in;
pub(crate) mod clock;
pub(crate) mod cnsa2;
mod combinations;
pub(crate) mod computed;
pub(crate) mod domain_parameters;
pub(crate) mod fips;
pub(crate) mod flags;
pub(crate) mod key;
pub(crate) mod key_type;
pub(crate) mod make;
pub(crate) mod pkcs8;
pub(crate) mod public_half;
pub(crate) mod required;
mod rule;
pub(crate) mod spki;
pub(crate) mod strict;
pub mod validation;
pub mod value;

use attribute::{ObjectRules, ObjectTypes};
use flags::{Bits, Flag};
pub use jeton_words::template;
pub use value::{AttributeView, Shown};
use value::{Kind, Value};

/// Where an object lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// A session object. It is in memory and ends with the session that created it.
    Session(SessionHandle),
    /// A token object, in the token's store under this number.
    Token(i64),
    /// A built-in object. It is not stored: it describes the token itself.
    BuiltIn,
}

/// A PKCS#11 object: its attributes, and after the first use of a key also the key in the backend's
/// form.
pub struct Object {
    /// Where the object lives.
    pub(crate) home: Home,
    object_type: ObjectTypes,
    attributes: Attributes,
    /// Whether it is a key without its secret parts: see [`Object::is_locked`].
    locked: bool,
    /// Computes the attributes that are not stored.
    provider: &'static Provider,
    private_key: OnceLock<Arc<dyn PrivateKey>>,
    public_key: OnceLock<Arc<dyn PublicKey>>,
    known: computed::Known,
    /// The memory of a session object, in the quota of its application.
    pub(crate) memory: Option<Permit>,
}

impl Object {
    /// Builds an object from attributes that are complete. Fails with `GeneralError` if their class
    /// or type is unknown. A newer version may have written such a record.
    pub(crate) fn new(home: Home, mut attributes: Attributes, provider: &'static Provider) -> Result<Self> {
        let object_type = attributes.object_type().ok_or(Error::GeneralError)?;
        attributes.fit();
        let locked = object_type.is_hidden()
            && !ObjectRules::of(object_type).secret.iter().any(|id| attributes.get(*id).is_some());
        let (private_key, public_key, known) = Default::default();
        let memory = None;
        Ok(Self { home, object_type, attributes, locked, provider, private_key, public_key, known, memory })
    }

    /// Takes the values that the object has computed which this one replaces. Those of a key never
    /// change.
    pub(crate) fn keep_computed(mut self, old: &Self) -> Self {
        if old.object_type.is_key() {
            self.known = old.known.clone();
        }
        self
    }

    /// Returns the key as a session without a login sees it: without its secret parts.
    pub(crate) fn without_secrets(&self) -> Result<Self> {
        let mut attributes = self.attributes.duplicate();
        attributes.retain(|id| !self.hides_while_locked(id));
        Self::new(self.home, attributes, self.provider)
    }

    /// Returns the object's class together with its key, certificate or feature type.
    pub(crate) fn object_type(&self) -> ObjectTypes {
        self.object_type
    }

    /// Returns all attributes that the object stores, secret ones too.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns whether it is a key whose secret parts are encrypted until a login: a token object
    /// with `CKA_PRIVATE` false while no one is logged in.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// Returns a flag's value. A flag that the object does not have is false.
    pub(crate) fn flag(&self, flag: Flag) -> bool {
        self.attributes.bits.get(flag).unwrap_or(false)
    }

    /// Returns an attribute for `C_GetAttributeValue`. Fails with `AttributeTypeInvalid` if the
    /// object does not have it, and with `AttributeSensitive` if the object hides it.
    pub fn attribute(&self, id: A) -> Result<AttributeView<'_>> {
        // A flag is never secret.
        if let Some(flag) = self.attributes.flag(id) {
            return Ok(AttributeView::flag(flag));
        }
        require(!self.hides(id), Error::AttributeSensitive)?;
        match self.computed(id) {
            Some(value) => Ok(value.view().into_owned()),
            None => self
                .attributes
                .get(id)
                .map(Value::view)
                .or_else(|| self.unrestricted(id))
                .ok_or(Error::AttributeTypeInvalid),
        }
    }

    /// Returns the empty list for `CKA_ALLOWED_MECHANISMS` of a key that was made without it. The
    /// key then allows every mechanism. If the attribute were absent, OpenSSL's provider would
    /// assume that the token does not know it.
    fn unrestricted(&self, id: A) -> Option<AttributeView<'static>> {
        let empty = AttributeView::Bytes(Shown::Held(&[]));
        (id == A::ALLOWED_MECHANISMS && self.object_type.is_key()).then_some(empty)
    }

    /// Returns whether the object shows the attribute with this value. A hidden attribute matches
    /// no value, so that no search can guess it.
    pub(crate) fn shows(&self, id: A, value: &Value) -> bool {
        if self.hides(id) {
            return false;
        }
        match self.computed(id) {
            Some(own) => own.equals(value),
            None => self.attributes.is(id, value),
        }
    }

    /// Computes an attribute. Returns `None` if it is not a computed attribute, or if its value is
    /// stored. PKCS#11 3.2, "Secret key objects": an empty `CKA_CHECK_VALUE` is a destroyed one, so
    /// it counts as stored. An empty `CKA_PUBLIC_KEY_INFO` does not count as stored: older versions
    /// stored one if the template lacked the attribute.
    fn computed(&self, id: A) -> Option<Value> {
        if !computed::is(id, self.object_type) {
            return None;
        }
        if id == A::EC_POINT {
            return self.point();
        }
        let stored = self.attributes.bytes(id);
        if stored.is_some_and(|bytes| !bytes.is_empty() || id == A::CHECK_VALUE) {
            return None;
        }
        self.known.value(id, || computed::value(id, &self.attributes, self.object_type, self.provider))
    }

    /// Returns the point of a private key, from its `CKA_PUBLIC_KEY_INFO`, which is computed once.
    #[cold]
    fn point(&self) -> Option<Value> {
        let AttributeView::Bytes(info) = self.attribute(A::PUBLIC_KEY_INFO).ok()? else { return None };
        spki::point(&info.into_owned()).map(Secret::new).map(Value::Bytes).ok()
    }

    /// Returns whether the object refuses to show the attribute: a secret part of a key that is
    /// sensitive or not extractable. A locked key shows no secret part. A locked secret key shows
    /// no check value either, because the check value is computed from the secret parts. The caller
    /// does not get `CKR_USER_NOT_LOGGED_IN`, because PKCS#11 3.2, C_GetAttributeValue, does not
    /// list it.
    pub(crate) fn hides(&self, id: A) -> bool {
        if self.locked {
            return self.hides_while_locked(id);
        }
        (self.flag(Flag::SENSITIVE) || !self.flag(Flag::EXTRACTABLE)) && self.is_secret_part(id)
    }

    /// Returns whether the attribute is a secret part of a key, and the object shows it.
    pub fn shows_secret(&self, id: A) -> bool {
        self.is_secret_part(id) && !self.hides(id)
    }

    #[cold]
    fn hides_while_locked(&self, id: A) -> bool {
        (id == A::CHECK_VALUE && self.object_type.is_secret()) || self.is_secret_part(id)
    }

    fn is_secret_part(&self, id: A) -> bool {
        ObjectRules::of(self.object_type).secret.contains(&id)
    }

    /// Returns the key type; `None` if the object is not a key.
    pub(crate) fn key_type(&self) -> Option<KeyType> {
        self.object_type.is_key().then(|| self.attributes.number(A::KEY_TYPE).map(KeyType)).flatten()
    }

    /// Returns whether `CKA_ALLOWED_MECHANISMS` allows the mechanism. A key without the list, or
    /// with an empty list, allows all mechanisms.
    pub(crate) fn allows(&self, mechanism: MechanismType) -> bool {
        match self.attributes.get(A::ALLOWED_MECHANISMS) {
            Some(Value::Numbers(allowed)) if !allowed.is_empty() => allowed.contains(&mechanism.0),
            _ => true,
        }
    }

    /// Returns the private key in the backend's form. The first call parses it.
    pub(crate) fn private_key(&self, provider: &Provider) -> Result<Arc<dyn PrivateKey>> {
        if let Some(key) = self.private_key.get() {
            return Ok(Arc::clone(key));
        }
        let key = provider.keys.private(&key::private_parts(&self.attributes)?)?;
        Ok(Arc::clone(self.private_key.get_or_init(|| key)))
    }

    /// Returns the public key in the backend's form. The first call parses it.
    pub(crate) fn public_key(&self, provider: &Provider) -> Result<Arc<dyn PublicKey>> {
        if let Some(key) = self.public_key.get() {
            return Ok(Arc::clone(key));
        }
        let parts = key::public_parts(&self.attributes)?;
        // The store may have a key from before `C_CreateObject` refused it.
        validation::check_order(&parts).map_err(|_| Error::KeyFunctionNotPermitted)?;
        let key = provider.keys.public(&parts)?;
        Ok(Arc::clone(self.public_key.get_or_init(|| key)))
    }

    /// Returns the approximate size in bytes, for `C_GetObjectSize`.
    pub(crate) fn size(&self) -> usize {
        self.attributes.iter().map(|(_, value)| 8 + value.size()).sum::<usize>()
            + self.attributes.bits.iter().count() * 9
    }

    /// Returns the number of bytes that the object counts as in a quota: an upper bound of its
    /// memory, with its place in the tables, the parsed key and the computed attributes.
    pub(crate) fn footprint(&self) -> usize {
        let is_pair = self.object_type.is_key() && !self.object_type.is_secret();
        // A parsed key has its numbers several times, in forms that are faster to compute with.
        let parsed = if is_pair { PARSED_KEY + 4 * self.size() } else { 0 };
        let computed = if is_pair || self.object_type.is_certificate() { 2 * self.size() } else { 0 };
        TABLES + self.attributes.footprint() + parsed + computed
    }
}

/// The bytes that the tables of objects have for one object, with its index keys.
const TABLES: usize = 2 << 10;
/// The bytes of a parsed key that do not depend on its size.
const PARSED_KEY: usize = 8 << 10;

/// The attributes of an object: flags as bits, the others sorted by attribute number.
#[derive(Default)]
pub struct Attributes {
    bits: Bits,
    values: Vec<(A, Value)>,
}

impl Attributes {
    /// Returns an empty set with room for this number of attributes that are not flags.
    fn with_room(len: usize) -> Self {
        Self { bits: Bits::default(), values: Vec::with_capacity(len) }
    }

    /// Returns an upper bound of the memory of the values in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.values.iter().map(|(_, value)| value.footprint()).sum()
    }

    /// Moves the values into an allocation of exactly their size. Shrinking the allocation in place
    /// would leave a hole in the heap behind each object. The old allocation is freed and serves
    /// the next object.
    fn fit(&mut self) {
        if self.values.len() < self.values.capacity() {
            let mut fitting = Vec::with_capacity(self.values.len());
            fitting.append(&mut self.values);
            self.values = fitting;
        }
    }

    /// Returns the value of an attribute that is not a flag.
    pub(crate) fn get(&self, id: A) -> Option<&Value> {
        self.place(0, id).ok().map(|at| &self.values[at].1)
    }

    /// Returns the index of an attribute that is not a flag, or else the one where to insert it,
    /// from `first` on. An object has so few that a binary search would take longer.
    fn place(&self, first: usize, id: A) -> Result<usize, usize> {
        let at = self.values[first..].iter().position(|(known, _)| *known >= id);
        let at = at.map_or(self.values.len(), |at| first + at);
        if self.values.get(at).is_some_and(|(known, _)| *known == id) { Ok(at) } else { Err(at) }
    }

    pub(crate) fn flag(&self, id: A) -> Option<bool> {
        Flag::of(id).and_then(|flag| self.bits.get(flag))
    }

    /// Returns the value of an attribute that is a number.
    pub(crate) fn number(&self, id: A) -> Option<u64> {
        match self.get(id) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the value of an attribute that is bytes.
    pub(crate) fn bytes(&self, id: A) -> Option<&[u8]> {
        match self.get(id) {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the attribute is present, as a flag or as a value.
    pub(crate) fn has(&self, id: A) -> bool {
        self.flag(id).is_some() || self.get(id).is_some()
    }

    /// Returns whether the attribute is present with this value.
    pub(crate) fn is(&self, id: A, value: &Value) -> bool {
        match value {
            Value::Flag(flag) => self.flag(id) == Some(*flag),
            value => self.get(id).is_some_and(|own| own.equals(value)),
        }
    }

    /// Sets an attribute. Replaces an older value.
    pub(crate) fn put(&mut self, id: A, value: Value) {
        if let (Value::Flag(flag), Some(place)) = (&value, Flag::of(id)) {
            return self.bits.put(place, *flag);
        }
        match self.place(0, id) {
            Ok(at) => self.values[at].1 = value,
            Err(at) => self.values.insert(at, (id, value)),
        }
    }

    /// Removes and wipes the values for which `keep` is false. Flags stay.
    pub(crate) fn retain(&mut self, keep: impl Fn(A) -> bool) {
        self.values.retain(|(id, _)| keep(*id));
    }

    /// Returns the attributes that are not flags, in order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (A, &Value)> {
        self.values.iter().map(|(id, value)| (*id, value))
    }

    /// Returns the flags that are present, with their values.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (A, bool)> {
        self.bits.iter()
    }

    /// Returns a copy. There is no `Clone`, so that each copy of a secret is visible in the code.
    pub(crate) fn duplicate(&self) -> Self {
        let values = self.values.iter().map(|(id, value)| (*id, value.duplicate())).collect();
        Self { bits: self.bits, values }
    }

    /// Returns whether each use of the key is counted: the key is stateful, or its uses are
    /// limited.
    pub(crate) fn counts_uses(&self) -> bool {
        self.counts() && self.number(A::CLASS) == Some(ObjectClass::PRIVATE_KEY.0)
    }

    /// Returns whether the token counts in the object what its uses may not repeat: uses, one-time
    /// keys, or one-time passwords. A copy would count them again.
    pub(crate) fn counts(&self) -> bool {
        self.get(A::JETON_USES_LEFT).is_some()
            || self.object_type().is_some_and(|object_type| ObjectTypes::COUNTED.has(object_type))
    }

    /// Returns whether `C_GetAttributeValue` shows the secret parts of a key.
    pub(crate) fn is_readable(&self) -> bool {
        self.bits.get(Flag::SENSITIVE) != Some(true) && self.bits.get(Flag::EXTRACTABLE) != Some(false)
    }

    /// Returns what the bytes of a key are. Only unreadable keys have a mark.
    pub(crate) fn makeup(&self) -> Makeup {
        Makeup::of(self.number(A::JETON_COPIED).unwrap_or(0))
    }

    /// Returns the class and type of the object that the attributes describe; `None` if they are
    /// unknown.
    pub(crate) fn object_type(&self) -> Option<ObjectTypes> {
        let class = ObjectClass(self.number(A::CLASS)?);
        let kind = attribute::type_of(class).and_then(|id| self.number(id));
        ObjectTypes::of(class, kind)
    }
}

/// Returns the form of an attribute's value; `None` if the attribute is unknown.
fn kind_of(id: A) -> Option<Kind> {
    attribute::kind(id)
}
