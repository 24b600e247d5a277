//! docs/attributes.md matches the attribute table. `JETON_WRITE_DOCS=1` writes the page.

use std::fmt::Write;
use std::path::Path;

use jeton::id::{KeyType, ObjectClass, value};
use jeton::object::attribute::{self, Change, Default, Need, ObjectTypes, Rule};

const HEAD: &str = "# Attributes

The attribute table of the core (`src/object/attribute.rs`), class by class. A test prints this page, and fails if the
page differs from the table (`JETON_WRITE_DOCS=1 cargo test --test token attribute_table` writes it).

The columns of the functions that create an object:

- \"must\": without the attribute the function returns `CKR_TEMPLATE_INCOMPLETE`.
- \"may\": the template may have the attribute.
- \"never\": with the attribute the function returns `CKR_ATTRIBUTE_READ_ONLY`.
- \"same\": the mechanism sets the attribute. The template may repeat its value; another value is
  `CKR_TEMPLATE_INCONSISTENT`.

An attribute that is not in the list of its class is `CKR_TEMPLATE_INCONSISTENT` in a template if another class has it,
and `CKR_ATTRIBUTE_TYPE_INVALID` otherwise. In `C_GetAttributeValue` it is `CKR_ATTRIBUTE_TYPE_INVALID`. A search for it
finds no object. A malformed value, or a number that the standard does not define, is
`CKR_ATTRIBUTE_VALUE_INVALID`.

\"Receive\" means `C_UnwrapKey`, `C_DeriveKey`, `C_EncapsulateKey` and `C_DecapsulateKey`. \"Set\" is
`C_SetAttributeValue`: a refused change is `CKR_ATTRIBUTE_READ_ONLY`, and the present value is not a change. \"Hidden\"
attributes are `CKR_ATTRIBUTE_SENSITIVE` if `CKA_SENSITIVE` is true or `CKA_EXTRACTABLE` is false.

Rules outside the table:

- A template never has `CKA_UNIQUE_ID`, not even with the present value.
- A session object that is made without a login has `CKA_PRIVATE` false by default.
- `CKA_DERIVE` is true by default for private keys of `CKK_EC`, `CKK_EC_MONTGOMERY` and `CKK_DH`. This deviates from
  \"Common key attributes\", which has `CK_FALSE`: Java generates such keys without the attribute and derives with them.
  `CKA_DERIVE` is also true by default for pre-master and master secrets of the TLS mechanisms, except under the
  policy *strict*.
- A secret key of `C_CreateObject` and a received key have `CKA_EXTRACTABLE` true by default.
- The TLS, SP 800-108 and IKE derivations, `CKM_CONCATENATE_*`, `CKM_XOR_BASE_AND_DATA`, `CKM_EXTRACT_KEY_FROM_KEY`, and
  HKDF with a salt key and without expansion take `CKA_EXTRACTABLE` and `CKA_SENSITIVE` from their base keys by default.
  Under the policy *strict* every derivation does. The other derivations make a key that is extractable and not
  sensitive by default.
- Derived keys inherit `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE`. On imported and unwrapped keys both are
  false.
- The template attributes of a key (`CKA_UNWRAP_TEMPLATE`, `CKA_DERIVE_TEMPLATE`, `CKA_ENCAPSULATE_TEMPLATE`,
  `CKA_DECAPSULATE_TEMPLATE`) set the attributes of the received key. A template that contradicts them is
  `CKR_TEMPLATE_INCONSISTENT`, and in `C_EncapsulateKey` `CKR_KEY_HANDLE_INVALID`. A key that does not match
  `CKA_WRAP_TEMPLATE` is `CKR_KEY_HANDLE_INVALID` in `C_WrapKey`.
- `C_SetAttributeValue` returns `CKR_ACTION_PROHIBITED` if `CKA_MODIFIABLE` is false, `C_CopyObject` if `CKA_COPYABLE`
  is false, and `C_DestroyObject` if `CKA_DESTROYABLE` is false. `C_SetAttributeValue` also returns it for a trusted
  certificate or key, except to the SO.
- If `C_CopyObject` can change a flag only to true, or only to false, the opposite change is
  `CKR_TEMPLATE_INCONSISTENT`. A copy has `CKA_TRUSTED` false, even if the original has it true.
- Only the SO may set `CKA_TRUSTED` true inside a template attribute (otherwise `CKR_ATTRIBUTE_READ_ONLY`).
- With `CKA_DECRYPT` false, `CKA_UNWRAP`, `CKA_DECAPSULATE` and `CKA_SIGN_RECOVER` are false by default. With `CKA_SIGN`
  false, `CKA_SIGN_RECOVER` is false by default.
- Some derivations copy the bytes of the base key: `CKM_CONCATENATE_BASE_AND_KEY`, `CKM_CONCATENATE_BASE_AND_DATA`,
  `CKM_CONCATENATE_DATA_AND_BASE`, `CKM_XOR_BASE_AND_DATA`, `CKM_EXTRACT_KEY_FROM_KEY`, and `CKM_IKE1_EXTENDED_DERIVE`
  if it only shortens the key. The result of an unreadable base key follows the rules of a copy:
  - Each of `CKA_ENCRYPT`, `CKA_DECRYPT`, `CKA_SIGN`, `CKA_VERIFY`, `CKA_WRAP`, `CKA_UNWRAP` and `CKA_DERIVE` is false
    if a base key lacks it, and the type of that base key has it by default or its `CKA_MODIFIABLE` is false.
  - `CKA_MODIFIABLE` and `CKA_COPYABLE` are false if a base key has them false. `CKA_PRIVATE` and
    `CKA_WRAP_WITH_TRUSTED` are true if a base key has them true.
  - `CKA_ALLOWED_MECHANISMS` has only mechanisms of the base key's list. The template attributes of the base key stay
    (otherwise `CKR_TEMPLATE_INCONSISTENT`).
- `CKA_JETON_COPIED` marks keys that contain bytes of an unreadable key: 1 after a concatenation, 2 after another
  derivation that copies. A concatenation cannot be shortened, and no such key returns the version of a TLS pre-master
  secret.
- `CKA_ALWAYS_AUTHENTICATE` true needs `CKA_PRIVATE` true, and the end date must not be before the start date
  (`CKR_TEMPLATE_INCONSISTENT`).
- The token computes `CKA_CHECK_VALUE` and the `CKA_PUBLIC_KEY_INFO` of keys. A value in the template must be equal
  (`CKR_ATTRIBUTE_VALUE_INVALID`). An empty check value stays empty.
- `CKA_VALUE_BITS` of a received private key must match its value (`CKR_TEMPLATE_INCONSISTENT`).
- A HOTP key follows RFC 4226: decimal format, a length of 6 to 8, and no requirement except for a counter. Its counter
  has eight bytes and is zero by default. `CKA_OTP_TIME` is empty or has fourteen digits
  (`CKR_ATTRIBUTE_VALUE_INVALID`).
- A public key that is derived from its private key has `CKA_DESTROYABLE` false by default, as the standard says. It
  takes its usages, identifier, subject and dates from the private key.
- X.509 and WTLS certificates have a value, or a URL with the digests of both public keys. A trust object that expresses
  trust must name its certificate by digest and algorithm (`CKR_TEMPLATE_INCOMPLETE`).
- Only the user sees private objects. Built-in objects are visible without a login. A search finds them if its template
  has their class. They cannot be created, changed, copied or destroyed (`CKR_TEMPLATE_INCONSISTENT`,
  `CKR_ACTION_PROHIBITED`).
";

#[test]
fn the_document_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/attributes.md");
    let text = document();
    if std::env::var_os("JETON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("the document");
    }
    let written = std::fs::read_to_string(&path).expect("the document");
    assert!(written == text, "docs/attributes.md differs from the table; JETON_WRITE_DOCS=1 writes the page");
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
        out.push_str("| Attribute | Types | C_CreateObject | Generate | Receive | Set | C_CopyObject | Read | Default |\n");
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

/// Returns whether the functions that generate keys can make objects of this class.
fn generates(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| known == class && object_type.is_key())
        || class == ObjectClass::DOMAIN_PARAMETERS
}

/// Returns whether unwrapping, derivation or decapsulation can make objects of this class. Only
/// derivation makes data objects.
fn receives(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| {
        known == class && (object_type.is_hidden() || object_type == ObjectTypes::DATA)
    })
}

fn built_in(class: ObjectClass) -> bool {
    ObjectTypes::known().any(|(known, _, object_type)| known == class && object_type.is_built_in())
}

/// Returns the names of the key, certificate or feature types of a class.
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

/// Returns "all", a list of types, or "all but" with a list of types.
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

/// Returns the changes that C_SetAttributeValue allows, and those that C_CopyObject allows.
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
