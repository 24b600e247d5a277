//! The attribute rules as a table: one row per attribute and set of object types.
//!
//! PKCS#11 3.2, "Common attributes" to "Secret key objects", and the tables of each mechanism's key
//! objects. The columns are the footnotes of its attribute tables.

use super::value::Kind;
use crate::id::{AttributeType as A, value};

pub use by_sort::SortRules;
pub use sorts::{Sorts, secret_class};

mod by_sort;
mod classes;
mod keys;
mod sorts;

/// Whether a template may or must contain an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Required: `TemplateIncomplete` if it is absent.
    Must,
    /// Optional.
    May,
    /// Forbidden: `AttributeReadOnly`, because the token sets it.
    Never,
    /// The mechanism sets it. A template may repeat it with the same value; another value is
    /// `TemplateInconsistent`.
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
    /// Both functions may change it from false to true.
    Raise,
    /// Both functions may change it from true to false.
    Lower,
    /// Only the SO may change it. At creation, too, only the SO may set it to true.
    Officer,
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
    TrueFor(Sorts),
    /// An empty value.
    Empty,
    /// This number.
    Number(u64),
    /// The token computes it when a caller reads it ([`computed`](super::computed)), unless the
    /// object stores a value.
    Computed,
}

/// One row of the table.
pub struct Rule {
    /// The attribute.
    pub id: A,
    /// The form of its value.
    pub kind: Kind,
    /// The classes and types of the objects that have it.
    pub on: Sorts,
    /// Whether the template of `C_CreateObject` has it.
    pub create: Need,
    /// Whether the template of `C_GenerateKey` or `C_GenerateKeyPair` has it.
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
    const fn new(id: A, kind: Kind, on: Sorts) -> Self {
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

    const fn needs(mut self, create: Need, generate: Need) -> Self {
        self.create = create;
        self.generate = generate;
        self
    }

    const fn changes(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    const fn or(mut self, default: Default) -> Self {
        self.default = default;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn up_to(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// Returns whether the template of a function that makes a key from another key has it.
    pub fn receive(&self) -> Need {
        match self.generate {
            // A generation needs the length, for example. The value of an unwrapped or derived key
            // decides it.
            Need::Must => Need::May,
            need => need,
        }
    }
}

/// Returns all rules.
pub fn table() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(keys::RULES).chain(classes::RULES)
}

/// Returns the rule of an attribute for an object's class and type.
pub fn rule(id: A, sort: Sorts) -> Option<&'static Rule> {
    SortRules::of(sort).get(id)
}

/// Returns the rules for an object's class and type.
pub fn rules(sort: Sorts) -> impl Iterator<Item = &'static Rule> {
    SortRules::of(sort).iter()
}

/// Returns whether only the SO can set the flag to true.
pub fn is_officers(id: A) -> bool {
    table().any(|rule| rule.id == id && rule.change == Change::Officer)
}

/// Returns the form of an attribute's value, which is the same for all objects.
pub fn kind(id: A) -> Option<Kind> {
    table().find(|rule| rule.id == id).map(|rule| rule.kind)
}

/// A flag that is true by default for the types in `default`, and false for the other types.
const fn flag(id: A, on: Sorts, default: Sorts) -> Rule {
    Rule::new(id, Kind::Flag, on).or(Default::TrueFor(default))
}

/// A flag that allows a use of a key.
const fn usage(id: A, on: Sorts, default: Sorts) -> Rule {
    flag(id, on, default).changes(Change::Usage)
}

/// A flag that only the token sets.
const fn record(id: A, on: Sorts) -> Rule {
    flag(id, on, Sorts::NONE).needs(Need::Never, Need::Never).changes(Change::Fixed)
}

/// Bytes that are empty by default.
const fn text(id: A, on: Sorts) -> Rule {
    Rule::new(id, Kind::Bytes, on).or(Default::Empty)
}

const RULES: &[Rule] = &[
    // Every object.
    Rule::new(A::CLASS, Kind::Number, Sorts::ALL).needs(Need::Must, Need::Same).changes(Change::Fixed),
    // PKCS#11 3.2, "Storage Objects", "Copying objects".
    flag(A::TOKEN, Sorts::STORAGE, Sorts::NONE).changes(Change::Copy),
    // Without a login, a public copy would show the private object. SoftHSM refuses it too.
    flag(A::PRIVATE, Sorts::STORAGE, Sorts::HIDDEN).changes(Change::CopyRaise),
    // A modifiable copy would bypass CKA_MODIFIABLE false.
    flag(A::MODIFIABLE, Sorts::HIDDEN, Sorts::HIDDEN).changes(Change::CopyLower),
    flag(A::MODIFIABLE, Sorts::OPEN, Sorts::OPEN).changes(Change::Copy),
    flag(A::COPYABLE, Sorts::STORAGE, Sorts::STORAGE).changes(Change::Lower),
    flag(A::DESTROYABLE, Sorts::STORAGE, Sorts::STORAGE).changes(Change::Copy),
    text(A::LABEL, Sorts::STORAGE),
    text(A::UNIQUE_ID, Sorts::ALL).needs(Need::Never, Need::Never).changes(Change::Fixed),
    // Data.
    text(A::APPLICATION, Sorts::DATA),
    text(A::OBJECT_ID, Sorts::DATA),
    text(A::VALUE, Sorts::DATA),
    // Certificates. PKCS#11 3.2, "X.509 public key certificate objects": only ID, ISSUER and
    // SERIAL_NUMBER change.
    Rule::new(A::CERTIFICATE_TYPE, Kind::Number, Sorts::CERTIFICATES)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    flag(A::TRUSTED, Sorts::CERTIFICATES.or(Sorts::PUBLIC).or(Sorts::SECRET), Sorts::NONE)
        .changes(Change::Officer),
    Rule::new(A::CERTIFICATE_CATEGORY, Kind::Number, Sorts::CERTIFICATES)
        .changes(Change::Fixed)
        .up_to(value::CATEGORY_OTHER_ENTITY)
        .or(Default::Number(0)),
    Rule::new(A::JAVA_MIDP_SECURITY_DOMAIN, Kind::Number, Sorts::X_509)
        .changes(Change::Fixed)
        .up_to(value::DOMAIN_THIRD_PARTY)
        .or(Default::Number(0)),
    Rule::new(A::NAME_HASH_ALGORITHM, Kind::Number, Sorts::X_509.or(Sorts::WTLS).or(Sorts::TRUST))
        .changes(Change::Fixed),
    Rule::new(A::CHECK_VALUE, Kind::Bytes, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Computed),
    Rule::new(A::SUBJECT, Kind::Bytes, Sorts::X_509.or(Sorts::WTLS))
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    text(A::ISSUER, Sorts::X_509.or(Sorts::WTLS)),
    text(A::SERIAL_NUMBER, Sorts::X_509.or(Sorts::X_509_ATTRIBUTE)),
    text(A::VALUE, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::URL, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_SUBJECT_PUBLIC_KEY, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_ISSUER_PUBLIC_KEY, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    // Keys.
    Rule::new(A::KEY_TYPE, Kind::Number, Sorts::KEYS.or(Sorts::DH_PARAMETERS))
        .needs(Need::Must, Need::Same)
        .changes(Change::Fixed),
    text(A::ID, Sorts::KEYS.or(Sorts::X_509)),
    Rule::new(A::START_DATE, Kind::Date, Sorts::KEYS).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, Sorts::KEYS).or(Default::Empty),
    Rule::new(A::START_DATE, Kind::Date, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    usage(
        A::DERIVE,
        Sorts::KEYS,
        Sorts::EC_PRIVATE
            .or(Sorts::MONTGOMERY_PRIVATE)
            .or(Sorts::GENERIC_SECRET)
            .or(Sorts::HKDF)
            .or(Sorts::AES)
            .or(Sorts::DH_PRIVATE),
    ),
    record(A::LOCAL, Sorts::KEYS.or(Sorts::DH_PARAMETERS)),
    Rule::new(A::KEY_GEN_MECHANISM, Kind::Number, Sorts::KEYS)
        .needs(Need::Never, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::ALLOWED_MECHANISMS, Kind::Numbers, Sorts::KEYS).changes(Change::Fixed),
    text(A::SUBJECT, Sorts::PUBLIC.or(Sorts::PRIVATE)),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, Sorts::PUBLIC.or(Sorts::CERTIFICATES))
        .changes(Change::Fixed)
        .or(Default::Computed),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, Sorts::PRIVATE).or(Default::Computed),
    // The token has no validation, so no flag is ever set.
    Rule::new(A::OBJECT_VALIDATION_FLAGS, Kind::Number, Sorts::KEYS)
        .needs(Need::Never, Need::Never)
        .changes(Change::Fixed)
        .or(Default::Computed),
    // The uses of a key: true by default if the key type supports them.
    usage(A::ENCRYPT, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::RSA_PUBLIC.or(Sorts::CIPHER)),
    usage(A::DECRYPT, Sorts::HIDDEN, Sorts::RSA_PRIVATE.or(Sorts::CIPHER)),
    usage(A::SIGN, Sorts::HIDDEN, Sorts::SIGNS),
    usage(A::VERIFY, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::VERIFIES),
    usage(A::SIGN_RECOVER, Sorts::PRIVATE, Sorts::RSA_PRIVATE),
    usage(A::VERIFY_RECOVER, Sorts::PUBLIC, Sorts::RSA_PUBLIC),
    usage(A::WRAP, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::RSA_PUBLIC.or(Sorts::CIPHER)),
    usage(A::UNWRAP, Sorts::HIDDEN, Sorts::RSA_PRIVATE.or(Sorts::CIPHER)),
    usage(A::ENCAPSULATE, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::ML_KEM_PUBLIC),
    usage(A::DECAPSULATE, Sorts::HIDDEN, Sorts::ML_KEM_PRIVATE),
    Rule::new(A::WRAP_TEMPLATE, Kind::Template, Sorts::PUBLIC.or(Sorts::SECRET)).changes(Change::Fixed),
    Rule::new(A::UNWRAP_TEMPLATE, Kind::Template, Sorts::HIDDEN).changes(Change::Fixed),
    Rule::new(A::ENCAPSULATE_TEMPLATE, Kind::Template, Sorts::PUBLIC).changes(Change::Fixed),
    Rule::new(A::DECAPSULATE_TEMPLATE, Kind::Template, Sorts::PRIVATE).changes(Change::Fixed),
    Rule::new(A::DERIVE_TEMPLATE, Kind::Template, Sorts::HIDDEN).changes(Change::Fixed),
    // The protection of a key.
    flag(A::SENSITIVE, Sorts::HIDDEN, Sorts::PRIVATE).changes(Change::Raise),
    flag(A::EXTRACTABLE, Sorts::HIDDEN, Sorts::NONE).changes(Change::Lower),
    record(A::ALWAYS_SENSITIVE, Sorts::HIDDEN),
    record(A::NEVER_EXTRACTABLE, Sorts::HIDDEN),
    flag(A::WRAP_WITH_TRUSTED, Sorts::HIDDEN, Sorts::NONE).changes(Change::Raise),
    flag(A::ALWAYS_AUTHENTICATE, Sorts::PRIVATE, Sorts::NONE).changes(Change::Fixed),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_rule_for_a_sort_and_one_kind_for_all() {
        for (at, rule) in table().enumerate() {
            for other in table().skip(at + 1) {
                if other.id == rule.id {
                    assert!(!other.on.has(rule.on), "{} stands twice", rule.id);
                    assert_eq!(other.kind, rule.kind, "{}", rule.id);
                }
            }
        }
    }

    #[test]
    fn every_flag_has_a_place_in_the_bits() {
        for rule in table().filter(|rule| rule.kind == Kind::Flag) {
            assert!(super::super::bits::Flag::of(rule.id).is_some(), "{}", rule.id);
        }
    }
}
