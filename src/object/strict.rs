//! Applies the policy *strict* to objects. Its rules are the tables of [`crate::config::strict`].

use tracing::warn;

use super::key_type::KeyTypeRow;
use super::template::Template;
use super::value::{self, Value};
use super::{Attributes, Object, key};
use crate::config::strict::{PAIRS, ROLES};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass};

/// Returns the template with each missing usage added as false, so that no usage is true by
/// default. A usage is missing if neither the template nor `forced`, the template of the base key,
/// has it.
pub(crate) fn named<'a>(template: &Template<'a>, class: ObjectClass, forced: Option<&Value>) -> Template<'a> {
    let forced: &[(A, Value)] = match forced {
        Some(Value::Template(forced)) => forced,
        _ => &[],
    };
    let of_forced = |id| forced.iter().find(|(known, _)| *known == id).map(|(_, value)| value);
    let class = match (template.bytes(A::CLASS).map(value::number), of_forced(A::CLASS)) {
        (Some(Ok(class)), _) => ObjectClass(class),
        (None, Some(Value::Number(class))) => ObjectClass(*class),
        _ => class,
    };
    let missing = key::usages(class).iter().filter(|id| of_forced(**id).is_none());
    missing.fold(template.clone(), |template, id| template.or(*id, &[0]))
}

/// Fails unless a new object follows the policy: a private or secret key has at most one role, and
/// each key has a safe size.
pub(crate) fn admit(attributes: &Attributes) -> Result<()> {
    let Some(object_type) = attributes.object_type() else { return Ok(()) };
    if object_type.is_hidden() && roles(|id| attributes.flag(id) == Some(true)) > 1 {
        return Err(Error::TemplateInconsistent);
    }
    sized(attributes)
}

/// Fails if a change or a copy adds a usage to the object. Otherwise a key could have one role
/// after the other (Delaune, Kremer, Steel 2008).
pub(crate) fn only_lowered(object: &Object, attributes: &Attributes) -> Result<()> {
    let raised =
        |id: &&A| attributes.flag(**id) == Some(true) && object.attributes().flag(**id) != Some(true);
    let found = ROLES.iter().flat_map(|role| role.usages).find(raised);
    if found.is_none() { Ok(()) } else { Err(Error::AttributeReadOnly) }
}

/// Fails if the two keys of a new pair have usages that exclude each other.
pub(crate) fn admit_pair(public: &Attributes, private: &Attributes) -> Result<()> {
    let both = |(one, other): &(A, A)| public.flag(*one) == Some(true) && private.flag(*other) == Some(true);
    if PAIRS.iter().any(both) { Err(Error::TemplateInconsistent) } else { Ok(()) }
}

/// Fails if the policy allows no use of this key. A key of an older store, or a key that was made
/// under the policy *compatible*, may have several roles. Such a key is unusable until the user
/// removes all roles but one.
pub(crate) fn usable(object: &Object) -> Result<()> {
    let has = |id| object.attributes().flag(id) == Some(true);
    if object.object_type().is_hidden() && roles(has) > 1 {
        let names: Vec<_> = ROLES.iter().filter(|role| role.usages.iter().any(|id| has(*id))).collect();
        let names: Vec<_> = names.iter().map(|role| role.name).collect();
        warn!(?names, "the policy strict refuses a key with several roles");
        return Err(Error::KeyFunctionNotPermitted);
    }
    sized(object.attributes())
}

/// Fails if an unwrapped, encapsulated or decapsulated key is explicitly not sensitive.
pub(crate) fn hidden(attributes: &Attributes) -> Result<()> {
    let shown = attributes.flag(A::SENSITIVE) == Some(false);
    if shown { Err(Error::TemplateInconsistent) } else { Ok(()) }
}

fn roles(has: impl Fn(A) -> bool) -> usize {
    ROLES.iter().filter(|role| role.usages.iter().any(|id| has(*id))).count()
}

fn sized(attributes: &Attributes) -> Result<()> {
    match attributes.object_type() {
        Some(object_type) if object_type.is_key() => {
            (KeyTypeRow::of_object(attributes)?.check_strict)(attributes)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_usage_has_two_roles() {
        let all: Vec<_> = ROLES.iter().flat_map(|role| role.usages).collect();
        assert!(all.iter().enumerate().all(|(at, id)| !all[..at].contains(id)));
        assert_eq!(all.len(), 11);
    }
}
