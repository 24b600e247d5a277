//! Objects: immutable once made. A change makes a new one that takes the old one's place.
//!
//! [`attribute`] holds the rules as a table, [`template`] what a caller gives, [`make`] how an object comes to be,
//! [`key`] the way between attributes and the parts of a key, [`curve`] the same for keys on curves, [`computed`] what
//! follows from other attributes, [`built_in`] the objects that nobody made, [`policy`] who may see and do what.

use std::sync::{Arc, OnceLock};

use crate::backend::{PrivateKey, Provider, PublicKey};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, KeyType, MechanismType, ObjectClass, SessionHandle};

pub mod attribute;
pub mod bits;
pub mod built_in;
pub mod clock;
pub mod computed;
pub mod curve;
pub mod key;
pub mod make;
pub mod otp;
pub mod parameters;
pub mod pkcs8;
pub mod policy;
pub mod public_half;
pub mod spki;
pub mod template;
pub mod value;
mod whole;

use attribute::{SortRules, Sorts};
use bits::{Bits, Flag};
pub use value::{AttributeView, Shown};
use value::{Kind, Value};

/// Where an object lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In memory, as long as the session that made it.
    Session(SessionHandle),
    /// In the token's store, under this number.
    Token(i64),
    /// Nowhere: the token says it of itself.
    BuiltIn,
}

/// An object.
pub struct Object {
    /// Where it lives.
    pub home: Home,
    sort: Sorts,
    attributes: Attributes,
    /// Computes what is not stored.
    provider: &'static Provider,
    private_key: OnceLock<Arc<dyn PrivateKey>>,
    public_key: OnceLock<Arc<dyn PublicKey>>,
}

impl Object {
    /// Puts attributes that are known to be complete into an object; `GeneralError` where they name no sort of
    /// object (a record of a newer version).
    pub fn new(home: Home, mut attributes: Attributes, provider: &'static Provider) -> Result<Self> {
        let sort = attributes.sort().ok_or(Error::GeneralError)?;
        attributes.fit();
        let (private_key, public_key) = (OnceLock::new(), OnceLock::new());
        Ok(Self { home, sort, attributes, provider, private_key, public_key })
    }

    /// Its class and key or certificate type in one.
    pub fn sort(&self) -> Sorts {
        self.sort
    }

    /// All that it holds, secrets too.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// A flag; one that it does not have is false.
    pub fn flag(&self, flag: Flag) -> bool {
        self.attributes.bits.get(flag).unwrap_or(false)
    }

    /// An attribute for `C_GetAttributeValue`: `AttributeTypeInvalid` where it has none such, `AttributeSensitive`
    /// where it does not show it.
    pub fn attribute(&self, id: A) -> Result<AttributeView<'_>> {
        if self.hides(id) {
            return Err(Error::AttributeSensitive);
        }
        if let Some(flag) = self.attributes.flag(id) {
            return Ok(AttributeView::flag(flag));
        }
        match self.computed(id) {
            Some(value) => Ok(value.view().into_owned()),
            None => self.attributes.get(id).map(Value::view).ok_or(Error::AttributeTypeInvalid),
        }
    }

    /// Whether it shows the attribute with that value. A hidden one matches nothing, so that no search can guess it.
    pub fn shows(&self, id: A, value: &Value) -> bool {
        if self.hides(id) {
            return false;
        }
        match self.computed(id) {
            Some(own) => own.equals(value),
            None => self.attributes.is(id, value),
        }
    }

    /// The value of a computed attribute, unless one is stored. PKCS#11 3.2, "Secret key objects": a check value of no
    /// bytes is a destroyed one; an older version stored `CKA_PUBLIC_KEY_INFO` of no bytes where none was given.
    fn computed(&self, id: A) -> Option<Value> {
        if !computed::is(id, self.sort) {
            return None;
        }
        let stored = self.attributes.bytes(id);
        if stored.is_some_and(|bytes| !bytes.is_empty() || id == A::CHECK_VALUE) {
            return None;
        }
        computed::value(id, &self.attributes, self.sort, self.provider)
    }

    /// Whether it has the attribute and will not show it.
    pub fn hides(&self, id: A) -> bool {
        (self.flag(Flag::SENSITIVE) || !self.flag(Flag::EXTRACTABLE))
            && SortRules::of(self.sort).secret.contains(&id)
    }

    /// The type of a key.
    pub fn key_type(&self) -> Option<KeyType> {
        self.sort.is_key().then(|| self.attributes.number(A::KEY_TYPE).map(KeyType)).flatten()
    }

    /// Whether `CKA_ALLOWED_MECHANISMS` lets the key be used with it; a key without the list may be used with all.
    pub fn allows(&self, mechanism: MechanismType) -> bool {
        match self.attributes.get(A::ALLOWED_MECHANISMS) {
            Some(Value::Numbers(allowed)) if !allowed.is_empty() => allowed.contains(&mechanism.0),
            _ => true,
        }
    }

    /// The parsed private key, parsed at the first call.
    pub fn private_key(&self, provider: &Provider) -> Result<Arc<dyn PrivateKey>> {
        if let Some(key) = self.private_key.get() {
            return Ok(Arc::clone(key));
        }
        let key = provider.keys.private(&key::private_parts(&self.attributes)?)?;
        Ok(Arc::clone(self.private_key.get_or_init(|| key)))
    }

    /// The parsed public key, parsed at the first call.
    pub fn public_key(&self, provider: &Provider) -> Result<Arc<dyn PublicKey>> {
        if let Some(key) = self.public_key.get() {
            return Ok(Arc::clone(key));
        }
        let key = provider.keys.public(&key::public_parts(&self.attributes)?)?;
        Ok(Arc::clone(self.public_key.get_or_init(|| key)))
    }

    /// Its size in bytes, about: what `C_GetObjectSize` tells.
    pub fn size(&self) -> usize {
        self.attributes.iter().map(|(_, value)| 8 + value.size()).sum::<usize>()
            + self.attributes.bits.iter().count() * 9
    }
}

/// The attributes of an object: flags as bits, the others sorted by number.
#[derive(Default)]
pub struct Attributes {
    bits: Bits,
    values: Vec<(A, Value)>,
}

impl Attributes {
    /// None yet, with room for those of most objects.
    fn with_room() -> Self {
        Self { bits: Bits::default(), values: Vec::with_capacity(16) }
    }

    /// Takes no more memory than they need. Into another block, so that the one with room serves the next object: cut short,
    /// it would leave a hole between two objects for each of them.
    fn fit(&mut self) {
        if self.values.len() < self.values.capacity() {
            let mut fitting = Vec::with_capacity(self.values.len());
            fitting.append(&mut self.values);
            self.values = fitting;
        }
    }

    /// A value that is no flag.
    pub fn get(&self, id: A) -> Option<&Value> {
        let at = self.values.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        Some(&self.values[at].1)
    }

    /// A flag.
    pub fn flag(&self, id: A) -> Option<bool> {
        Flag::of(id).and_then(|flag| self.bits.get(flag))
    }

    /// A number.
    pub fn number(&self, id: A) -> Option<u64> {
        match self.get(id) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Bytes.
    pub fn bytes(&self, id: A) -> Option<&[u8]> {
        match self.get(id) {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the attribute is there, as a flag or a value.
    pub fn has(&self, id: A) -> bool {
        self.flag(id).is_some() || self.get(id).is_some()
    }

    /// Whether the attribute is there with this value.
    pub fn is(&self, id: A, value: &Value) -> bool {
        match value {
            Value::Flag(flag) => self.flag(id) == Some(*flag),
            value => self.get(id).is_some_and(|own| own.equals(value)),
        }
    }

    /// Puts an attribute, in place of an older value.
    pub fn put(&mut self, id: A, value: Value) {
        if let (Value::Flag(flag), Some(place)) = (&value, Flag::of(id)) {
            return self.bits.put(place, *flag);
        }
        match self.values.binary_search_by_key(&id, |(known, _)| *known) {
            Ok(at) => self.values[at].1 = value,
            Err(at) => self.values.insert(at, (id, value)),
        }
    }

    /// Puts an attribute that is not there with another value; whether it is not.
    fn put_once(&mut self, id: A, value: Value) -> bool {
        if let (Value::Flag(flag), Some(place)) = (&value, Flag::of(id)) {
            let same = self.bits.get(place).is_none_or(|known| known == *flag);
            self.bits.put(place, *flag);
            return same;
        }
        match self.values.binary_search_by_key(&id, |(known, _)| *known) {
            Ok(at) => self.values[at].1.equals(&value),
            Err(at) => {
                self.values.insert(at, (id, value));
                true
            }
        }
    }

    /// The values that are no flags, in order.
    pub fn iter(&self) -> impl Iterator<Item = (A, &Value)> {
        self.values.iter().map(|(id, value)| (*id, value))
    }

    /// The flags.
    pub fn flags(&self) -> impl Iterator<Item = (A, bool)> {
        self.bits.iter()
    }

    /// A second copy, asked for by name.
    pub fn duplicate(&self) -> Self {
        let values = self.values.iter().map(|(id, value)| (*id, value.duplicate())).collect();
        Self { bits: self.bits, values }
    }

    /// The sort of object that they make.
    pub fn sort(&self) -> Option<Sorts> {
        let class = ObjectClass(self.number(A::CLASS)?);
        let kind = match class {
            ObjectClass::CERTIFICATE => self.number(A::CERTIFICATE_TYPE),
            ObjectClass::PUBLIC_KEY
            | ObjectClass::PRIVATE_KEY
            | ObjectClass::SECRET_KEY
            | ObjectClass::DOMAIN_PARAMETERS
            | ObjectClass::OTP_KEY => self.number(A::KEY_TYPE),
            ObjectClass::HW_FEATURE => self.number(A::HW_FEATURE_TYPE),
            _ => None,
        };
        Sorts::of(class, kind)
    }
}

/// How an attribute's value reads, for attributes nested in templates.
fn kind_of(id: A) -> Option<Kind> {
    attribute::kind(id)
}
