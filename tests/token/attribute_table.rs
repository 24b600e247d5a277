//! docs/attributes.md is what the attribute table says. `JETON_WRITE_DOCS=1` writes it anew.

use std::fmt::Write;
use std::path::Path;

use jeton::id::{KeyType, ObjectClass, value};
use jeton::object::attribute::{self, Change, Default, Need, ObjectTypes, Rule};

const HEAD: &str = "# Attributes

What the attribute table of the core (`src/object/attribute.rs`) says, class by class; a test prints this file and
fails where it is older than the table (`JETON_WRITE_DOCS=1 cargo test --test token attribute_table` writes it).

In the columns of the functions that make an object, \"must\" is `CKR_TEMPLATE_INCOMPLETE` without the attribute, \"may\"
is free, \"never\" is `CKR_ATTRIBUTE_READ_ONLY` mechanism it, and \"same\" is what the mechanism makes: a template may repeat
it, and another value is `CKR_TEMPLATE_INCONSISTENT`. An attribute that is not in the list of its class is
`CKR_ATTRIBUTE_TYPE_INVALID`, in `C_GetAttributeValue` too; a search for it finds nothing. A malformed value, or one
beyond what the standard defines, is `CKR_ATTRIBUTE_VALUE_INVALID`.

\"Receive\" stands for `C_UnwrapKey`, `C_DeriveKey`, `C_EncapsulateKey` and `C_DecapsulateKey`. \"Set\" is
`C_SetAttributeValue`; a change that it refuses is `CKR_ATTRIBUTE_READ_ONLY`, and the value that the object has already
is no change. \"Hidden\" is `CKR_ATTRIBUTE_SENSITIVE` where `CKA_SENSITIVE` is true or `CKA_EXTRACTABLE` is false.

Rules that are no column:

- `CKA_UNIQUE_ID` is never given, not even mechanism the value that it has.
- A received key has `CKA_EXTRACTABLE` true by default; a derived key takes `CKA_EXTRACTABLE` and `CKA_SENSITIVE` from
  its base. `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE` are inherited by derived keys, and false on keys that
  came from outside.
- The templates on a key (`CKA_UNWRAP_TEMPLATE`, `CKA_DERIVE_TEMPLATE`, `CKA_ENCAPSULATE_TEMPLATE`,
  `CKA_DECAPSULATE_TEMPLATE`) give the received key their attributes; a template that says otherwise is
  `CKR_TEMPLATE_INCONSISTENT`, in `C_EncapsulateKey` `CKR_KEY_HANDLE_INVALID`. A key that does not match
  `CKA_WRAP_TEMPLATE` is `CKR_KEY_HANDLE_INVALID` in `C_WrapKey`.
- `CKA_MODIFIABLE`, `CKA_COPYABLE` and `CKA_DESTROYABLE` false make their function answer `CKR_ACTION_PROHIBITED`. For
  everybody but the SO `C_SetAttributeValue` answers the same for a trusted certificate or key.
- Where `C_CopyObject` can only raise or only lower a flag, the other change is `CKR_TEMPLATE_INCONSISTENT`. A copy has
  `CKA_TRUSTED` false, whatever was copied.
- `CKA_TRUSTED` true inside a template on a key is the SO's to set, as outside (`CKR_ATTRIBUTE_READ_ONLY`).
- With `CKA_DECRYPT` false, `CKA_UNWRAP`, `CKA_DECAPSULATE` and `CKA_SIGN_RECOVER` are false by default. With `CKA_SIGN`
  false, `CKA_SIGN_RECOVER` is false by default.
- A key that `CKM_CONCATENATE_BASE_AND_KEY`, `CKM_CONCATENATE_BASE_AND_DATA`, `CKM_CONCATENATE_DATA_AND_BASE`,
  `CKM_XOR_BASE_AND_DATA`, `CKM_EXTRACT_KEY_FROM_KEY`, or `CKM_IKE1_EXTENDED_DERIVE` by cutting, gives of a key that
  cannot be read is held to what a copy is held to. `CKA_ENCRYPT`, `CKA_DECRYPT`, `CKA_SIGN`, `CKA_VERIFY`, `CKA_WRAP`,
  `CKA_UNWRAP` and `CKA_DERIVE` are false where a base key was made without a usage that its type has by default, or has
  `CKA_MODIFIABLE` false and lacks the usage. `CKA_MODIFIABLE` and `CKA_COPYABLE` are not raised, `CKA_PRIVATE` and
  `CKA_WRAP_WITH_TRUSTED` are not lowered, `CKA_ALLOWED_MECHANISMS` has no mechanism that a base key's list has not, and
  the templates of the base key stay (`CKR_TEMPLATE_INCONSISTENT` otherwise).
- `CKA_JETON_COPIED` is on keys mechanism bytes of a key that cannot be read: 1 after a concatenation, 2 after another
  derivation that copies. A concatenation is never cut, and no such key gives the version of a TLS pre-master secret.
- `CKA_ALWAYS_AUTHENTICATE` true needs `CKA_PRIVATE` true, and an end date is not before the start date
  (`CKR_TEMPLATE_INCONSISTENT`).
- `CKA_CHECK_VALUE` and, of keys, `CKA_PUBLIC_KEY_INFO` are computed; a value that is given must be that one
  (`CKR_ATTRIBUTE_VALUE_INVALID`). A check value of no bytes is none, and stays so.
- `CKA_VALUE_BITS` of a private key that is received must be that of its value (`CKR_TEMPLATE_INCONSISTENT`).
- A HOTP key has what RFC 4226 has: decimal format, a length of 6 to 8, no requirement but that of a counter. Its
  counter has eight bytes and is zero where none is given, and `CKA_OTP_TIME` is empty or fourteen digits
  (`CKR_ATTRIBUTE_VALUE_INVALID`).
- A public key that is derived from its private key has `CKA_DESTROYABLE` false by default, as the standard says, and
  takes what it may do, its identifier, subject and dates from the private key.
- X.509 and WTLS certificates have a value, or a URL mechanism the digests of both public keys; a trust object that trusts
  names its certificate by digest and algorithm (`CKR_TEMPLATE_INCOMPLETE`).
- A private object exists for nobody but the user. Objects of the built-in classes are seen by everybody, are found
  where the template of the search names their class, and can be neither made nor changed, copied or destroyed
  (`CKR_TEMPLATE_INCONSISTENT`, `CKR_ACTION_PROHIBITED`).
";

#[test]
fn the_document_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/attributes.md");
    let text = document();
    if std::env::var_os("JETON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("the document");
    }
    let written = std::fs::read_to_string(&path).expect("the document");
    assert!(written == text, "docs/attributes.md is older than the table; JETON_WRITE_DOCS=1 writes it anew");
}

fn document() -> String {
    let mut classes: Vec<_> = ObjectTypes::known().map(|(class, _, _)| class).collect();
    classes.sort();
    classes.dedup();
    let mut out = String::from(HEAD);
    for class in classes {
        write!(out, "\n## {class}\n\n").expect("a string");
        let kinds: Vec<_> = kinds(class, |_| true).filter(|kind| !kind.is_empty()).collect();
        if !kinds.is_empty() {
            writeln!(out, "Types: {}.\n", kinds.join(", ")).expect("a string");
        }
        out.push_str("| Attribute | Of | C_CreateObject | Generate | Receive | Set | C_CopyObject | Read | Default |\n");
        out.push_str("|---|---|---|---|---|---|---|---|---|\n");
        for rule in attribute::table().filter(|rule| kinds_of(class, rule) > 0) {
            let row = [
                format!("{}", rule.id),
                of(class, rule),
                made(class, rule, rule.create),
                if generates(class) { need(rule.generate) } else { "–".into() },
                if receives(class) { need(rule.receive()) } else { "–".into() },
                changed(class, rule).0.into(),
                changed(class, rule).1.into(),
                if rule.secret { "hidden".into() } else { "yes".into() },
                default(class, rule),
            ];
            writeln!(out, "| {} |", row.join(" | ")).expect("a string");
        }
    }
    out
}

/// The classes whose objects are generated.
fn generates(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| known == class && object_type.is_key())
        || class == ObjectClass::DOMAIN_PARAMETERS
}

/// The classes whose objects come out of a key; data objects do so by derivation.
fn receives(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| {
        known == class && (object_type.is_hidden() || object_type == ObjectTypes::DATA)
    })
}

fn built_in(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| known == class && object_type.is_built_in())
}

/// The names of the key, certificate or feature types of a class.
fn kinds(class: ObjectClass, which: impl Fn(ObjectTypes) -> bool) -> impl Iterator<Item = String> {
    ObjectTypes::known().filter(move |(known, _, object_type)| *known == class && which(*object_type)).map(
        |(class, kind, _)| match (class, kind) {
            (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509)) => "CKC_X_509".into(),
            (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509_ATTRIBUTE)) => {
                "CKC_X_509_ATTR_CERT".into()
            }
            (ObjectClass::CERTIFICATE, _) => "CKC_WTLS".into(),
            (ObjectClass::HW_FEATURE, _) => "CKH_CLOCK".into(),
            (_, Some(kind)) => KeyType(kind).to_string(),
            (_, None) => String::new(),
        },
    )
}

fn kinds_of(class: ObjectClass, rule: &Rule) -> usize {
    kinds(class, |object_type| rule.on.has(object_type)).count()
}

/// "all", the types, or all but some.
fn of(class: ObjectClass, rule: &Rule) -> String {
    some(class, |object_type| rule.on.has(object_type))
}

fn some(class: ObjectClass, which: impl Fn(ObjectTypes) -> bool + Copy) -> String {
    let (mechanism, without): (Vec<_>, Vec<_>) =
        (kinds(class, which).collect(), kinds(class, move |object_type| !which(object_type)).collect());
    match without.len() {
        0 => "all".into(),
        few if few < mechanism.len() => format!("all but {}", without.join(", ")),
        _ => mechanism.join(", "),
    }
}

fn made(class: ObjectClass, rule: &Rule, create: Need) -> String {
    if built_in(class) || rule.id == jeton::id::AttributeType::UNIQUE_ID {
        need(Need::Never)
    } else {
        need(create)
    }
}

fn need(need: Need) -> String {
    match need {
        Need::Must => "must",
        Need::May => "may",
        Need::Never => "never",
        Need::Same => "same",
    }
    .into()
}

/// The changes by C_SetAttributeValue, and by C_CopyObject.
fn changed(class: ObjectClass, rule: &Rule) -> (&'static str, &'static str) {
    match rule.change {
        _ if built_in(class) => ("no", "no"),
        Change::Free => ("yes", "yes"),
        Change::Copy => ("no", "yes"),
        Change::CopyRaise => ("no", "to true"),
        Change::CopyLower => ("no", "to false"),
        Change::Usage => ("yes", "to false"),
        Change::Raise => ("to true", "to true"),
        Change::Lower => ("to false", "to false"),
        Change::SecurityOfficer => ("by the SO", "by the SO"),
        Change::Clear => ("to no value", "to no value"),
        Change::Fixed => ("no", "no"),
    }
}

fn default(class: ObjectClass, rule: &Rule) -> String {
    match rule.default {
        Default::Absent => "–".into(),
        Default::Empty => "empty".into(),
        Default::Number(number) => number.to_string(),
        Default::Computed => "computed".into(),
        Default::TrueFor(object_types) => {
            let on = rule.on;
            if kinds(class, |object_type| on.has(object_type) && object_types.has(object_type)).count() == 0 {
                return "false".into();
            }
            match some(class, |object_type| !on.has(object_type) || object_types.has(object_type)).as_str() {
                "all" => "true".into(),
                _ => format!(
                    "true for {}",
                    some(class, |object_type| on.has(object_type) && object_types.has(object_type))
                ),
            }
        }
    }
}
