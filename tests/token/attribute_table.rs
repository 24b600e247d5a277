//! A table of the attribute rules of each class. If `JETON_ATTRIBUTES` names a file, the test
//! writes the page of the site there: docs/attributes.md, and the tables after it.

use std::fmt::Write;

use jeton::id::{KeyType, ObjectClass, value};
use jeton::object::attribute::{self, Change, Default, Need, ObjectTypes, Rule};

#[test]
fn every_rule_has_a_row_in_the_document() {
    let page = document(include_str!("../../docs/attributes.md"));
    for rule in attribute::table() {
        assert!(page.contains(&format!("\n| {} | ", rule.id)), "{} has no row", rule.id);
    }
    if let Some(path) = std::env::var_os("JETON_ATTRIBUTES") {
        std::fs::write(path, page).expect("the page");
    }
}

/// Returns the page: the prose, and a table for each class.
fn document(prose: &str) -> String {
    let mut classes: Vec<_> = ObjectTypes::known().map(|(class, _, _)| class).collect();
    classes.sort();
    classes.dedup();
    let mut out = String::from(prose);
    for class in classes {
        write!(out, "\n## {class}\n\n").expect("a string");
        let types: Vec<_> = kinds(class, |_| true).filter(|kind| !kind.is_empty()).collect();
        if !types.is_empty() {
            writeln!(out, "Types: {}.\n", types.join(", ")).expect("a string");
        }
        out.push_str("| Attribute | Types | C_CreateObject | Generate | Receive | Set | C_CopyObject | Read | Default |\n");
        out.push_str("|---|---|---|---|---|---|---|---|---|\n");
        let is_of = |rule: &&Rule| kinds(class, |object_type| rule.on.has(object_type)).count() > 0;
        for rule in attribute::table().filter(is_of) {
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
        Change::Less => ("to a smaller number", "no"),
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
