//! The attribute rules as a table: one row per attribute and set of object types.
//!
//! PKCS#11 3.2, "Common attributes" to "Secret key objects", and the tables of each mechanism's key
//! objects. The columns express the footnotes of PKCS#11's attribute tables.

use super::key_type::{self, FAMILIES};
use super::rule::{fixed, flag, hidden, text};
use super::value::Kind;
use crate::error::Error;
use crate::id::{AttributeType as A, value};

pub use super::rule::{Change, Default, Need, ObjectTypes, Rule};
pub(crate) use by_type::ObjectRules;
pub(crate) use object_types::{default_len, type_of};
pub use object_types::{len_fits, secret_class, secret_types, structure};

mod by_type;
mod classes;
mod object_types;

/// Returns all rules.
pub fn table() -> impl Iterator<Item = &'static Rule> {
    let of_key_types = FAMILIES.iter().flat_map(|family| family.rules);
    RULES.iter().chain(of_key_types).chain(classes::RULES)
}

/// Returns the rule of an attribute for an object's class and type.
pub fn rule(id: A, object_type: ObjectTypes) -> Option<&'static Rule> {
    ObjectRules::of(object_type).get(id)
}

/// Returns the error for an attribute in a template whose object cannot have it. PKCS#11 3.2,
/// "Objects": `AttributeTypeInvalid` if no object can have it, and `TemplateInconsistent` if other
/// objects can.
pub(crate) fn misplaced(id: A) -> Error {
    match kind(id) {
        Some(_) => Error::TemplateInconsistent,
        None => Error::AttributeTypeInvalid,
    }
}

/// Returns the rules for an object's class and type.
pub fn rules(object_type: ObjectTypes) -> impl Iterator<Item = &'static Rule> {
    ObjectRules::of(object_type).iter()
}

/// Returns whether only the SO can set the flag to true.
pub(crate) fn is_set_by_so(id: A) -> bool {
    table().any(|rule| rule.id == id && rule.change == Change::SecurityOfficer)
}

/// Returns the form of an attribute's value, which is the same for all objects.
pub(crate) fn kind(id: A) -> Option<Kind> {
    table().find(|rule| rule.id == id).map(|rule| rule.kind)
}

/// A flag that allows a use of a key.
const fn usage(id: A, on: ObjectTypes) -> Rule {
    flag(id, on, key_type::with_use(id)).changes(Change::Usage)
}

/// A flag that only the token sets.
const fn record(id: A, on: ObjectTypes) -> Rule {
    flag(id, on, ObjectTypes::NONE).needs(Need::Never, Need::Never).changes(Change::Fixed)
}

const RULES: &[Rule] = &[
    // The attribute of every object.
    fixed(A::CLASS, Kind::Number, ObjectTypes::ALL, Need::Must, Need::Same),
    // PKCS#11 3.2, "Storage Objects", "Copying objects".
    flag(A::TOKEN, ObjectTypes::STORAGE, ObjectTypes::NONE).changes(Change::Copy),
    // Sessions without a login could read a public copy of a private object. SoftHSM refuses such a
    // copy too.
    flag(A::PRIVATE, ObjectTypes::STORAGE, ObjectTypes::HIDDEN).changes(Change::CopyRaise),
    // A modifiable copy would bypass CKA_MODIFIABLE false.
    flag(A::MODIFIABLE, ObjectTypes::HIDDEN, ObjectTypes::HIDDEN).changes(Change::CopyLower),
    flag(A::MODIFIABLE, ObjectTypes::OPEN, ObjectTypes::OPEN).changes(Change::Copy),
    // A copy of a key that counts would count again.
    flag(A::COPYABLE, ObjectTypes::STORAGE, ObjectTypes::STORAGE.without(ObjectTypes::COUNTED))
        .changes(Change::Lower),
    flag(A::DESTROYABLE, ObjectTypes::STORAGE, ObjectTypes::STORAGE).changes(Change::Copy),
    text(A::LABEL, ObjectTypes::STORAGE),
    text(A::UNIQUE_ID, ObjectTypes::ALL).needs(Need::Never, Need::Never).changes(Change::Fixed),
    // The attributes of data objects.
    text(A::APPLICATION, ObjectTypes::DATA),
    text(A::OBJECT_ID, ObjectTypes::DATA),
    text(A::VALUE, ObjectTypes::DATA),
    // The attributes of certificates. PKCS#11 3.2, "X.509 public key certificate objects": of their
    // own attributes, only ID, ISSUER and SERIAL_NUMBER change.
    fixed(A::CERTIFICATE_TYPE, Kind::Number, ObjectTypes::CERTIFICATES, Need::Must, Need::Never),
    flag(
        A::TRUSTED,
        ObjectTypes::CERTIFICATES.or(ObjectTypes::PUBLIC).or(ObjectTypes::SECRET),
        ObjectTypes::NONE,
    )
    .changes(Change::SecurityOfficer),
    Rule::new(A::CERTIFICATE_CATEGORY, Kind::Number, ObjectTypes::CERTIFICATES)
        .changes(Change::Fixed)
        .up_to(value::CATEGORY_OTHER_ENTITY)
        .or(Default::Number(0)),
    Rule::new(A::JAVA_MIDP_SECURITY_DOMAIN, Kind::Number, ObjectTypes::X_509)
        .changes(Change::Fixed)
        .up_to(value::DOMAIN_THIRD_PARTY)
        .or(Default::Number(0)),
    Rule::new(A::NAME_HASH_ALGORITHM, Kind::Number, ObjectTypes::X_509.or(ObjectTypes::WTLS))
        .changes(Change::Fixed),
    Rule::new(A::NAME_HASH_ALGORITHM, Kind::Number, ObjectTypes::TRUST)
        .changes(Change::Fixed)
        .or(Default::Computed),
    Rule::new(A::CHECK_VALUE, Kind::Bytes, ObjectTypes::CERTIFICATES)
        .changes(Change::Fixed)
        .or(Default::Computed),
    fixed(A::SUBJECT, Kind::Bytes, ObjectTypes::X_509.or(ObjectTypes::WTLS), Need::Must, Need::Never),
    text(A::ISSUER, ObjectTypes::X_509.or(ObjectTypes::WTLS)),
    text(A::SERIAL_NUMBER, ObjectTypes::X_509.or(ObjectTypes::X_509_ATTRIBUTE)),
    text(A::VALUE, ObjectTypes::X_509.or(ObjectTypes::WTLS)).changes(Change::Fixed),
    text(A::URL, ObjectTypes::X_509.or(ObjectTypes::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_SUBJECT_PUBLIC_KEY, ObjectTypes::X_509.or(ObjectTypes::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_ISSUER_PUBLIC_KEY, ObjectTypes::X_509.or(ObjectTypes::WTLS)).changes(Change::Fixed),
    // The attributes of keys and domain parameters.
    fixed(A::KEY_TYPE, Kind::Number, ObjectTypes::KEYS.or(ObjectTypes::PARAMETERS), Need::Must, Need::Same),
    text(A::ID, ObjectTypes::KEYS.or(ObjectTypes::X_509)),
    Rule::new(A::START_DATE, Kind::Date, ObjectTypes::KEYS).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, ObjectTypes::KEYS).or(Default::Empty),
    Rule::new(A::START_DATE, Kind::Date, ObjectTypes::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, ObjectTypes::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    // PKCS#11 3.2, "Common key attributes", has CK_FALSE as the default. Private keys for key
    // agreement deviate: Java generates them without the attribute and derives with them.
    flag(A::DERIVE, ObjectTypes::KEYS, key_type::with_use(A::DERIVE).and(ObjectTypes::PRIVATE))
        .changes(Change::Usage),
    record(A::LOCAL, ObjectTypes::KEYS.or(ObjectTypes::PARAMETERS)),
    fixed(A::KEY_GEN_MECHANISM, Kind::Number, ObjectTypes::KEYS, Need::Never, Need::Never),
    Rule::new(A::ALLOWED_MECHANISMS, Kind::Numbers, ObjectTypes::KEYS).changes(Change::Fixed),
    text(A::SUBJECT, ObjectTypes::PUBLIC.or(ObjectTypes::PRIVATE)),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, ObjectTypes::PUBLIC.or(ObjectTypes::CERTIFICATES))
        .changes(Change::Fixed)
        .or(Default::Computed),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, ObjectTypes::PRIVATE).or(Default::Computed),
    // The token has no validation, so no flag is ever set.
    fixed(A::OBJECT_VALIDATION_FLAGS, Kind::Number, ObjectTypes::KEYS, Need::Never, Need::Never)
        .or(Default::Computed),
    // The uses of a key. The row of its type has those that it has by default.
    usage(A::ENCRYPT, ObjectTypes::PUBLIC.or(ObjectTypes::SECRET)),
    usage(A::DECRYPT, ObjectTypes::HIDDEN),
    usage(A::SIGN, ObjectTypes::HIDDEN),
    usage(A::VERIFY, ObjectTypes::PUBLIC.or(ObjectTypes::SECRET)),
    usage(A::SIGN_RECOVER, ObjectTypes::PRIVATE),
    usage(A::VERIFY_RECOVER, ObjectTypes::PUBLIC),
    usage(A::WRAP, ObjectTypes::PUBLIC.or(ObjectTypes::SECRET)),
    usage(A::UNWRAP, ObjectTypes::HIDDEN),
    usage(A::ENCAPSULATE, ObjectTypes::PUBLIC),
    usage(A::DECAPSULATE, ObjectTypes::PRIVATE),
    Rule::new(A::WRAP_TEMPLATE, Kind::Template, ObjectTypes::PUBLIC.or(ObjectTypes::SECRET))
        .changes(Change::Fixed),
    Rule::new(A::UNWRAP_TEMPLATE, Kind::Template, ObjectTypes::HIDDEN).changes(Change::Fixed),
    Rule::new(A::ENCAPSULATE_TEMPLATE, Kind::Template, ObjectTypes::PUBLIC).changes(Change::Fixed),
    Rule::new(A::DECAPSULATE_TEMPLATE, Kind::Template, ObjectTypes::PRIVATE).changes(Change::Fixed),
    Rule::new(A::DERIVE_TEMPLATE, Kind::Template, ObjectTypes::HIDDEN).changes(Change::Fixed),
    // PKCS#11 3.2, "Secret key objects".
    hidden(A::VALUE, Kind::Bytes, ObjectTypes::SECRET, Need::Must),
    Rule::new(A::CHECK_VALUE, Kind::Bytes, ObjectTypes::SECRET).changes(Change::Clear).or(Default::Computed),
    // Ours: the uses that a private key has left, and had at first.
    Rule::new(A::JETON_USES_LEFT, Kind::Number, ObjectTypes::PRIVATE).changes(Change::Less),
    fixed(A::JETON_USES, Kind::Number, ObjectTypes::PRIVATE, Need::Never, Need::Never),
    fixed(A::JETON_INCARNATION, Kind::Number, ObjectTypes::PRIVATE, Need::Never, Need::Never),
    fixed(A::JETON_COPIED, Kind::Number, ObjectTypes::SECRET, Need::Never, Need::Never),
    // The protection of a key.
    flag(A::SENSITIVE, ObjectTypes::HIDDEN, ObjectTypes::PRIVATE).changes(Change::Raise),
    flag(A::EXTRACTABLE, ObjectTypes::HIDDEN, ObjectTypes::NONE).changes(Change::Lower),
    record(A::ALWAYS_SENSITIVE, ObjectTypes::HIDDEN),
    record(A::NEVER_EXTRACTABLE, ObjectTypes::HIDDEN),
    flag(A::WRAP_WITH_TRUSTED, ObjectTypes::HIDDEN, ObjectTypes::NONE).changes(Change::Raise),
    flag(A::ALWAYS_AUTHENTICATE, ObjectTypes::PRIVATE, ObjectTypes::NONE).changes(Change::Fixed),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_rule_per_object_type_and_one_form() {
        for (at, rule) in table().enumerate() {
            for other in table().skip(at + 1) {
                if other.id == rule.id {
                    assert!(!other.on.has(rule.on), "{} has two rules", rule.id);
                    assert_eq!(other.kind, rule.kind, "{}", rule.id);
                }
            }
        }
    }

    #[test]
    fn every_flag_has_a_bit() {
        for rule in table().filter(|rule| rule.kind == Kind::Flag) {
            assert!(super::super::flags::Flag::of(rule.id).is_some(), "{}", rule.id);
        }
    }
    #[test]
    fn the_client_knows_every_attribute_with_numbers() {
        for rule in table() {
            let is_known = jeton_names::structs::NUMBERS.contains(&rule.id.0);
            assert_eq!(matches!(rule.kind, Kind::Number | Kind::Numbers), is_known, "{}", rule.id);
        }
    }
}
