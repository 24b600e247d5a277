//! Objects as the readers return them.

use std::collections::BTreeMap;
use std::fmt;

use cryptoki_sys::*;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Bytes that are wiped when they are dropped.
pub type Secret = Zeroizing<Vec<u8>>;

/// An object of an old store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// The name of its file, or its number in the database.
    pub name: String,
    /// All its attributes, decrypted.
    pub attributes: BTreeMap<CK_ATTRIBUTE_TYPE, Value>,
}

impl Object {
    /// Returns the value of a `CK_ULONG` attribute.
    pub fn number(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<u64> {
        match self.attributes.get(&kind) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns whether the object has this `CK_BBOOL` attribute and its value is true.
    pub fn flag(&self, kind: CK_ATTRIBUTE_TYPE) -> bool {
        matches!(self.attributes.get(&kind), Some(Value::Flag(true)))
    }

    /// Returns the value of a byte array attribute, or an empty slice if the object lacks it.
    pub fn bytes(&self, kind: CK_ATTRIBUTE_TYPE) -> &[u8] {
        match self.attributes.get(&kind) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// `CK_BBOOL`
    Flag(bool),
    /// `CK_ULONG`
    Number(u64),
    /// A byte array, a string, a date or a big integer.
    Bytes(Secret),
    /// A template inside an attribute, such as `CKA_WRAP_TEMPLATE`.
    Template(Vec<(CK_ATTRIBUTE_TYPE, Value)>),
    /// `CKA_ALLOWED_MECHANISMS`
    Mechanisms(Vec<CK_ULONG>),
}

/// Shows lengths instead of bytes, which may be a key.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Template(attributes) => f.debug_list().entries(attributes).finish(),
            Self::Mechanisms(mechanisms) => f.debug_list().entries(mechanisms).finish(),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("name", &self.name).field("attributes", &self.attributes).finish()
    }
}

const NSS_TRUST_STEP_UP_APPROVED: CK_ATTRIBUTE_TYPE = 0xce53_6360;

pub(crate) const fn is_flag(kind: CK_ATTRIBUTE_TYPE) -> bool {
    // The attributes of a range have numbers without a gap.
    matches!(
        kind,
        CKA_TOKEN
            | CKA_PRIVATE
            | CKA_MODIFIABLE..=CKA_DESTROYABLE
            | CKA_TRUSTED
            | CKA_SENSITIVE..=CKA_DERIVE
            | CKA_ENCAPSULATE
            | CKA_DECAPSULATE
            | CKA_EXTRACTABLE..=CKA_ALWAYS_SENSITIVE
            | CKA_ALWAYS_AUTHENTICATE
            | CKA_WRAP_WITH_TRUSTED
            | NSS_TRUST_STEP_UP_APPROVED
    )
}
