//! The columns of the attribute table, and the sets of object types that its rows are for.

use super::value::Kind;
use crate::id::AttributeType as A;

/// A set of object types. Each one is a class together with a key, certificate or hardware feature
/// type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectTypes(u64);

impl ObjectTypes {
    pub(super) const NONE: Self = Self(0);

    /// Returns the set of one object type. Each object type has its own number.
    pub(super) const fn member(number: u32) -> Self {
        Self(1 << number)
    }

    /// Returns the bit number of a set that has one member.
    pub(super) fn place(self) -> usize {
        debug_assert_eq!(self.0.count_ones(), 1);
        self.0.trailing_zeros() as usize % 64
    }

    /// Returns the union of two sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the members of this set that are not in the other.
    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the common members of two sets.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the sets have a common member.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Whether a template may or must contain an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Required: `TemplateIncomplete` if it is absent.
    Must,
    /// Optional.
    May,
    /// Forbidden: `AttributeReadOnly`, because the token sets it.
    Never,
    /// The mechanism sets it. A template may repeat it with the same value; another value fails
    /// with `TemplateInconsistent`.
    Same,
}

/// How an attribute may change after creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `C_SetAttributeValue` and `C_CopyObject` may change it.
    Free,
    /// Only `C_CopyObject` may change it.
    Copy,
    /// Only `C_CopyObject` may change it, and only from false to true.
    CopyRaise,
    /// Only `C_CopyObject` may change it, and only from true to false.
    CopyLower,
    /// `C_SetAttributeValue` may change it. `C_CopyObject` may only set it to false.
    Usage,
    /// `C_SetAttributeValue` and `C_CopyObject` may change it from false to true.
    Raise,
    /// `C_SetAttributeValue` and `C_CopyObject` may change it from true to false.
    Lower,
    /// `C_SetAttributeValue` may change it to a smaller number.
    Less,
    /// Only the SO may change it. At creation, too, only the SO may set it to true.
    SecurityOfficer,
    /// It may only become empty.
    Clear,
    /// It never changes.
    Fixed,
}

/// The value if the template does not have the attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// The object does not have the attribute.
    Absent,
    /// True for these classes and types, false for the others.
    TrueFor(ObjectTypes),
    /// An empty value.
    Empty,
    /// This number.
    Number(u64),
    /// The token computes it when a caller reads it (`computed.rs`), unless the object stores a
    /// value.
    Computed,
}

/// One row of the table.
pub struct Rule {
    /// The attribute.
    pub id: A,
    /// The form of its value.
    pub kind: Kind,
    /// The classes and types of the objects that have it.
    pub on: ObjectTypes,
    /// Whether the template of `C_CreateObject` may or must contain it.
    pub create: Need,
    /// Whether the template of `C_GenerateKey` or `C_GenerateKeyPair` may or must contain it.
    pub generate: Need,
    /// How it changes after creation.
    pub change: Change,
    /// Whether it is hidden if `CKA_SENSITIVE` is true or `CKA_EXTRACTABLE` is false.
    pub secret: bool,
    /// Its value if the template does not have it.
    pub default: Default,
    /// The largest valid number.
    pub most: u64,
}

impl Rule {
    pub(super) const fn new(id: A, kind: Kind, on: ObjectTypes) -> Self {
        Self {
            id,
            kind,
            on,
            create: Need::May,
            generate: Need::May,
            change: Change::Free,
            secret: false,
            default: Default::Absent,
            most: u64::MAX,
        }
    }

    pub(super) const fn needs(mut self, create: Need, generate: Need) -> Self {
        self.create = create;
        self.generate = generate;
        self
    }

    pub(super) const fn changes(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    pub(super) const fn or(mut self, default: Default) -> Self {
        self.default = default;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(super) const fn up_to(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// Returns whether the template of a function that makes a key from another key may or must
    /// contain the attribute.
    pub fn receive(&self) -> Need {
        match self.generate {
            // For example, `C_GenerateKey` needs `CKA_VALUE_LEN`. The template of an unwrapped key
            // may leave it out, because the wrapped key already has a length.
            Need::Must => Need::May,
            need => need,
        }
    }
}

/// Returns the rule of an attribute that never changes.
pub(super) const fn fixed(id: A, kind: Kind, on: ObjectTypes, create: Need, generate: Need) -> Rule {
    Rule::new(id, kind, on).needs(create, generate).changes(Change::Fixed)
}

/// Returns the rule of a public part of a key. `C_CreateObject` requires it. If the token generates
/// the key, the mechanism sets it.
pub(super) const fn made(id: A, kind: Kind, on: ObjectTypes) -> Rule {
    fixed(id, kind, on, Need::Must, Need::Same)
}

/// Returns the rule of a secret part of a key. `create` is the need in `C_CreateObject`. If the
/// token generates the key, the mechanism computes it.
pub(super) const fn hidden(id: A, kind: Kind, on: ObjectTypes, create: Need) -> Rule {
    fixed(id, kind, on, create, Need::Never).secret()
}

pub(super) const fn flag(id: A, on: ObjectTypes, default: ObjectTypes) -> Rule {
    Rule::new(id, Kind::Flag, on).or(Default::TrueFor(default))
}

/// Bytes that are empty by default.
pub(super) const fn text(id: A, on: ObjectTypes) -> Rule {
    Rule::new(id, Kind::Bytes, on).or(Default::Empty)
}
